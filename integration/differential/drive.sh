#!/bin/bash
# drive.sh LIST DIR: submits each line of LIST as options of sbatch, one job after the other on an idle cluster, and leaves
# for line n: DIR/n.rc (what sbatch exited with), DIR/n.err, and DIR/n.job: what the job saw of itself, or what
# scontrol tells of one that does not start.
n=0
while IFS= read -r line; do
  n=$((n + 1)); f=$2/$n
  id=$(eval "sbatch --parsable -o /dev/null -J world $line $2/world.sh $f" 2>"$f.err" </dev/null); rc=$?
  echo $rc >"$f.rc"
  [ $rc = 0 ] || continue
  waited=0
  while [ ! -e "$f.done" ]; do
    sleep 0.1; waited=$((waited + 1))
    if [ $waited -ge ${PATIENCE:-30} ] && [ "$(squeue -h -j "$id" -o %T)" != RUNNING ]; then
      { echo "## show"; scontrol show job -d -o "$id"; } >"$f.job"
      scancel "$id"; break
    fi
    [ $waited -lt 200 ] || break
  done
  for k in $(seq 100); do [ -z "$(squeue -h -t R,CG -o %i)" ] && break; sleep 0.1; done
done <"$1"
