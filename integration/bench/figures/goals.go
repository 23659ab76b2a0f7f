package main

// goal is what a row is called, what a quiet machine of this kind gave for Slurm 22.05.8 before, and what is asked of Stint.
type goal struct{ figure, recorded, goal string }

var goals = map[string]goal{
	"sbatch":   {"one `sbatch` after another, fsynced: wall; CPU of the client (medians)", "3.6 ms; –", "≤ Slurm's; ≤ 1.1 × Slurm's"},
	"parallel": {"submissions/s from 8 parallel `sbatch`", "527", "1.3 × Slurm's, and 700"},
	"submit":   {"submissions/s through one connection (`stint submit -`, 50,000 lines; Slurm: its REST daemon, 4 connections)", "1,000 (C library)", "10,000"},
	"rate":     {"batch jobs/s, 4 nodes × 8 CPUs (bare loop of the same script)", "31", "310, and half of the bare loop"},
	"rate128":  {"the same, 4 × 128 CPUs", "67", "400"},
	"history":  {"the same as the first with 1,000,000 jobs in history, of the rate without", "–", "90 %"},
	"wait":     {"`sbatch --wait --wrap true`, idle cluster (median)", "2.0 s", "100 ms"},
	"squeue10": {"`squeue`, 10,000 pending (least; CPU of command and daemons)", "70 ms", "half of Slurm's"},
	"squeue50": {"`squeue`, 50,000 pending (least; CPU of command and daemons)", "332 ms", "half of Slurm's"},
	"sinfo":    {"`sinfo`, 10,000 nodes (least; CPU of command and daemons)", "26 ms", "half of Slurm's"},
	"scancel":  {"`scancel` of 50,000 jobs, until `squeue` is empty", "21.6 s", "1 s"},
	"sacct":    {"`sacct -X`, 50,000 finished jobs (least)", "0.88 s", "0.2 s"},
	"sacctj":   {"`sacct -j ID`, beside them (least)", "92 ms", "10 ms"},
	"kill":     {"`kill -9` of everything, 50,000 pending, 4 submitting: until `squeue` answers; acknowledged and lost", "1.4 s; up to 1,088 of 3,199", "1 s; 0"},
	"memory":   {"controller's memory at 50,000 pending, above idle", "171 MB", "60 MB"},
	"fold":     {"events folded a second (apply; decode and apply)", "–", "1 M/s"},
	"rebuild":  {"rebuilding a ledger of 1,000,000 jobs", "–", "10 s"},
	"replay":   {"start of a cluster with 1,000,000 jobs in history, until `squeue` answers", "–", "–"},
	"queries":  {"1,000 queries/s of one user's 100 jobs over 8 connections: p99 of intent to decision without, with", "–", "at most twice"},
}
