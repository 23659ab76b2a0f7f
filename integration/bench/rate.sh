#!/usr/bin/env bash
# Batch jobs per second, end to end: from the first submission until the last job's row is read back from accounting. It speaks
# Slurm, so it measures whatever sbatch and sacct come first on PATH: Stint's, or the real one's.
#
#   integration/bench/rate.sh [JOBS] [SUBMITTERS] [NODES]
#
# With NODES (a host list) these are drained while the jobs are submitted, and the clock of the last figure runs from their
# resumption to the last row. Each job is a bash script of one command with an output file of its own. Prints submissions/s, jobs/s, the number of output
# files, and for comparison a bare loop that forks the same script with an output file.
set -euo pipefail
jobs=${1:-1000} submitters=${2:-8} nodes=${3:-}
work=$(mktemp -d) && cd "$work"
trap 'cd / && rm -rf "$work"' EXIT
printf '#!/bin/bash\ntrue\n' >job.sh && chmod +x job.sh
name=rate$$
now() { date +%s.%N; }
per() { awk -v n="$1" -v a="$2" -v b="$3" 'BEGIN{printf "%.0f/s (%d in %.2f s)", n/(b-a), n, b-a}'; }
[ -z "$nodes" ] || scontrol update nodename="$nodes" state=drain reason=measuring
start=$(now)
for ((k = 0; k < submitters; k++)); do
  (for ((i = 0; i < jobs / submitters; i++)); do sbatch -Q -n1 --mem=10 -J "$name" job.sh >/dev/null; done) &
done
wait
submitted=$(now)
first=$start
[ -z "$nodes" ] || { first=$(now); scontrol update nodename="$nodes" state=resume; }
total=$((jobs / submitters * submitters))
for ((k = 0; k < 6000; k++)); do
  done=$(sacct -X -n --name="$name" -o State | grep -c COMPLETED || true)
  [ "$done" -ge "$total" ] && break
  sleep 0.05
done
end=$(now)
[ "$done" -eq "$total" ] || { echo "only $done of $total jobs are COMPLETED"; exit 1; }
echo "submissions     $(per "$total" "$start" "$submitted")"
echo "end to end      $(per "$total" "$first" "$end"), accounting read back"
echo "output files    $(find . -name 'slurm-*.out' | wc -l)"
start=$(now)
for ((i = 0; i < 500; i++)); do ./job.sh >"bare.$i"; done
echo "bare loop       $(per 500 "$start" "$(now)"), one after another"
