#!/usr/bin/env bash
# What questions about a long queue cost: wall and CPU time of each command, the least of RUNS. It measures whatever squeue, scontrol and
# sacct come first on PATH: Stint's, or the real one's, on a cluster that has the jobs already (`stint submit` of held ones makes fifty
# thousand in a quarter of a minute).
#
#   integration/bench/queries.sh [RUNS]
set -euo pipefail
runs=${1:-5}
jobs=$(squeue -h -r | wc -l)
one=$(squeue -h -o %A | sed -n '$p')
echo "$jobs jobs"
printf '%-44s %8s %8s\n' command wall CPU
while IFS= read -r c; do
  for ((i = 0; i < runs; i++)); do
    TIMEFORMAT='%R %U %S'
    { time $c >/dev/null 2>&1; } 2>&1 | awk '{print $1, $2 + $3}'
  done | awk -v c="$c" 'NR == 1 || $1 < w {w = $1} NR == 1 || $2 < u {u = $2} END {printf "%-44s %6.2f s %6.2f s\n", c, w, u}'
done <<X
squeue
squeue -l
squeue -h -o %i
squeue -h -t all -o %i_%t
squeue -O JobID,Name,State,tres-alloc
squeue -h -u root -S i
squeue -j $one
squeue --json
scontrol show job
scontrol -o show job
scontrol show job $one
sacct -a -X -s PD
X
