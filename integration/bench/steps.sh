#!/bin/bash
# How long steps take: run it inside an allocation of four nodes with eight CPUs each of either system, whose commands are on PATH.
#   salloc -N4 -n32 integration/bench/steps.sh [N]
# It prints, in milliseconds each: N steps of one task one after another; the CPU that srun itself takes of that; steps of 32 tasks on
# four nodes; 64 steps that are started at once and share what there is, with how many of them failed; how many MB/s go through the standard
# input and output of a task (GB=2 of them, 0: none); and a line of each of MANY=1000 tasks, labelled, with how many came whole and right.
set -u
n=${1:-100}
now() { date +%s%N; }
each() { awk -v ns="$1" -v n="$2" 'BEGIN { printf "%.1f", ns / 1e6 / n }'; }

srun -N1 -n1 true 2>/dev/null # the first one is not like the others
t0=$(now)
for _ in $(seq "$n"); do srun -N1 -n1 true || echo "a step failed"; done
echo "one after another: $(each $(($(now) - t0)) "$n") ms each"

t0=$(now)
for _ in $(seq 10); do srun -N4 -n32 true || echo "a step failed"; done
echo "32 tasks on 4 nodes: $(each $(($(now) - t0)) 10) ms each"

failed=$(mktemp)
t0=$(now)
for _ in $(seq 64); do srun -N1 -n1 --overlap true 2>/dev/null || echo x >>"$failed" & done
wait
echo "64 at once: $(each $(($(now) - t0)) 64) ms each, $(wc -l <"$failed") failed"
rm -f "$failed"

gb=${GB:-2}
if [ "$gb" -gt 0 ]; then
	t0=$(now)
	got=$(head -c "${gb}G" /dev/zero | { srun -N1 -n1 cat; } | wc -c)
	ns=$(($(now) - t0))
	awk -v b="$got" -v ns="$ns" 'BEGIN { printf "through cat: %.0f MB/s, %.0f of them\n", b / ns * 1e3, b / 1e6 }'
fi

many=${MANY:-1000}
t0=$(now)
right=$(srun -O -n"$many" -l sh -c 'echo "this is the line of task $SLURM_PROCID and of nobody else"' | awk '{ n = $1 + 0 } $0 ~ "^ *" n ": this is the line of task " n " and of nobody else$" && !seen[n]++ { ok++ } END { print ok + 0 }')
echo "$many tasks print a line: $(each $(($(now) - t0)) 1) ms, $right of them right"
