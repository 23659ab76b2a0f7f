#!/usr/bin/env bash
# Questions about a long queue, asked of Stint and of a real Slurm beside it in one run: each command in turn of the one and of the other,
# RUNS times, and of each the least wall time, CPU time of the command, and CPU time of the daemons meanwhile. It prints a table for docs/performance.md.
#
#   integration/bench/beside.sh fill [JOBS]   starts both and gives each as many jobs, which wait in a partition that is down (minutes: the real
#                                             one takes a hundred to three hundred a second)
#   integration/bench/beside.sh [RUNS] [COMMAND]     measures; of @ in a command comes the id of a job
#   integration/bench/beside.sh down          takes both down
#
# It needs root, stint and its links in bin/ (task build), and STINT_ORACLE: the folder of the script that starts a real Slurm, with slurmdbd
# (docs/architecture.md). The state of both is in BESIDE (default: a folder of /var/tmp).
set -euo pipefail
oracle=${STINT_ORACLE:?the folder of the script that starts a real Slurm}
here=${BESIDE:-/var/tmp/stint-beside} name=${NAME:-beside}
bin=${BIN:-$(cd "$(dirname "$0")/../.." && pwd)/bin}
export STINT_DIR=$here/d
real_dir=${ORACLE_RUN:-/var/tmp/slurm-oracle}/$name
mkdir -p "$here" && cd "$here"
unset ${!SLURM_*} ${!SBATCH_*} ${!SQUEUE_*} ${!SACCT_*}

# Both sides are reached through nsenter, so that it costs both the same.
slurm() { nsenter -t "$(cat "$real_dir/pid")" -n -m --wd=/ "/usr/bin/$1" "${@:2}"; }
stint() { nsenter -t $$ -n -m --wd=/ "$STINT_DIR/bin/$1" "${@:2}"; }

case ${1:-} in
fill)
  jobs=${2:-50000}
  printf '#!/bin/bash\ntrue\n' >job.sh && chmod 755 . job.sh
  "$oracle/oracle" $name up tuned-acct 4
  sed 's/^SlurmctldHost=.*/SlurmctldHost=localhost/; 1i SlurmCompat=22.05' "$oracle/etc/tuned-acct/slurm.conf" | sed '/^JobCompType/d' >slurm.conf
  "$bin/stint" up --dir "$STINT_DIR" --config slurm.conf --virtual --detach
  for side in slurm stint; do
    $side scontrol update partitionname=compute state=down
    $side sacctmgr -Q -i add account phys && $side sacctmgr -Q -i add user alice account=phys
  done
  alice="setpriv --reuid=alice --regid=alice --init-groups"
  job='{"ntasks":1,"mem":"10","time":"60","output":"/dev/null","job-name":"job","comment":"run","file":"'$here'/job.sh"}'
  awk -v job="$job" -v n="$jobs" 'BEGIN {while (n-- > 0) print job}' | nsenter -t $$ -n $alice env STINT_DIR="$STINT_DIR" "$bin/stint" submit - >/dev/null
  for ((k = 0; k < 4; k++)); do
    nsenter -t "$(cat "$real_dir/pid")" -n -m --wd=/ $alice bash -c "for ((i = 0; i < $jobs / 4; i++)); do until sbatch -Q -n1 --mem=10 -t60 -o/dev/null -Jjob --comment=run $here/job.sh >/dev/null 2>&1; do sleep 0.5; done; done" &
  done
  wait
  exit ;;
down)
  "$bin/stint" down --dir "$STINT_DIR" --kill
  exec "$oracle/oracle" $name down ;;
esac

runs=${1:-5}
pids() { # of the daemons of a side
  case $1 in
  slurm) cat "$real_dir"/run/{slurmctld,slurmdbd,mysqld}.pid ;;
  stint) sed -n 's/^ *"pid": *\([0-9]*\).*/\1/p' "$STINT_DIR/up.json" ;;
  esac
}
slurm_pids=$(pids slurm) stint_pids=$(pids stint)
spent() { # CPU time of processes so far, in hundredths of a second
  local sum=0 p f
  for p in $1; do read -r f </proc/"$p"/stat; f=(${f##*) }); ((sum += f[11] + f[12])); done
  echo $sum
}
one() { # one command of one side: wall, CPU, CPU of the daemons
  local daemons=${1}_pids before after t
  before=$(spent "${!daemons}")
  TIMEFORMAT='%R %U %S'
  t=$({ time "$@" >/dev/null 2>>errors; } 2>&1)
  after=$(spent "${!daemons}")
  echo "$t $((after - before))" | awk '{printf "%.3f %.3f %.2f\n", $1, $2 + $3, $4 / 100}'
}
: >errors
njobs=$(stint squeue -h -o %i | wc -l) sjobs=$(slurm squeue -h -o %i | wc -l)
sid=$(slurm squeue -h -o %i | sed -n 1000p) tid=$(stint squeue -h -o %i | sed -n 1000p)
echo "$njobs jobs of Stint, $sjobs of Slurm $(slurm squeue --version), least of $runs; $(nproc) cores, load $(cut -d' ' -f1 /proc/loadavg)"
echo
echo '| command | Stint: wall, CPU, daemons | Slurm: wall, CPU, daemons | wall | CPU |'
echo '|---|---:|---:|---:|---:|'
while IFS= read -r c; do
  [ -n "$c" ] || continue
  : >rows
  for ((i = 0; i < runs; i++)); do
    echo "stint $(one stint ${c//@/$tid})" >>rows
    echo "slurm $(one slurm ${c//@/$sid})" >>rows
  done
  awk -v c="$c" '
    !($1 in w) || $2 < w[$1] {w[$1] = $2} !($1 in u) || $3 < u[$1] {u[$1] = $3} !($1 in d) || $4 < d[$1] {d[$1] = $4}
    function cell(s) {return sprintf("%.2f, %.2f, %.2f s", w[s], u[s], d[s])}
    END {a = u["stint"] + d["stint"]; b = u["slurm"] + d["slurm"]
      gsub("@", "ID", c); printf "| `%s` | %s | %s | %.2f | %s |\n", c, cell("stint"), cell("slurm"), w["stint"] / w["slurm"], b < 0.02 ? "" : sprintf("%.2f", a / b)}' rows
done <<<"${2:-squeue
squeue -h -o %i
squeue -l
squeue -O JobID,Name,State,tres-alloc
squeue -u alice -t PD -S i
squeue -j @
sinfo
sinfo -N -l
scontrol show job
scontrol -o show job
scontrol show job @
sacct -a -X -S now-1day
sacct -a -X -n -P -S now-1day -o JobID,State
sacct -a -X -s PD -S now-1day -E now -l
sacct -j @
squeue --json}"
[ ! -s errors ] || { echo "some commands failed:" >&2; sort errors | uniq -c >&2; }
