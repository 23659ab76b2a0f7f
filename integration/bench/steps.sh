#!/bin/bash
# How long steps take: run it inside an allocation of four nodes with eight CPUs each of either system, whose commands are on PATH.
#   salloc -N4 -n32 integration/bench/steps.sh [N]
# It prints, in milliseconds each: N steps of one task one after another; the CPU that srun itself takes of that; steps of 32 tasks on
# four nodes; and 64 steps that are started at once and share what there is, with how many of them failed.
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
