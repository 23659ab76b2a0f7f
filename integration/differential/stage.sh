#!/bin/bash
# stage.sh WORK: brings a fresh cluster, run by root, to the state that questions are asked of: every job has the same id wherever it is run, because each
# is submitted when the one before it is where it is to be. Files of users lie in WORK.
cd "$1" || exit 1
as() { # USER COMMAND...
  local u=$1; shift
  setpriv --reuid="$u" --regid="$u" --init-groups env -i HOME="/home/$u" USER="$u" LOGNAME="$u" SHELL=/bin/bash PATH="$PATH" LANG=C TZ=UTC ${STINT_DIR:+STINT_DIR=$STINT_DIR} "$@"
}
is() { # ID STATE: waits for it
  local k
  for k in $(seq 200); do
    [[ $(squeue -h -t all -j "$1" -o %T | sort -u | tr '\n' ' ') = *"$2 "* ]] && return
    sleep 0.1
  done
  echo "stage: job $1 is $(squeue -h -t all -j "$1" -o '%T %r'), and not $2" >&2
  exit 1
}
sub() { # USER STATE OPTIONS...: submits a job and waits until it is in that state
  local u=$1 s=$2 id; shift 2
  id=$(as "$u" sbatch --parsable "$@") || { echo "stage: sbatch $*" >&2; exit 1; }
  is "${id%%+*}" "$s"
  sleep 1.1 # no two in the same second: what is sorted by it
  J=$id
}

for a in research teaching; do sacctmgr -i add account $a description="$a" organization=lab >/dev/null; done
sacctmgr -i add account physics parent=research description=Physics organization=lab >/dev/null
sacctmgr -i add qos high Priority=100 >/dev/null
sacctmgr -i add qos low Priority=1 >/dev/null
sacctmgr -i add user alice account=physics qos=normal,high,low defaultqos=normal >/dev/null
sacctmgr -i add user alice account=teaching >/dev/null
sacctmgr -i add user bob account=research qos=normal,high,low defaultqos=high >/dev/null
sacctmgr -i add user carol account=teaching >/dev/null
sacctmgr -i add user root account=root >/dev/null 2>&1
scontrol reconfigure

# over
sub alice COMPLETED -J done -o /dev/null --wrap true
sub bob FAILED -J fails -o /dev/null --wrap 'exit 3'
sub alice PENDING -J taken -H --wrap true; as alice scancel "$J"; is "$J" CANCELLED
sub bob RUNNING -J stopped -o /dev/null -p one --wrap 'exec sleep 600'; scancel "$J"; is "$J" CANCELLED
sub carol COMPLETED -J 'over[1]' -a 3-4 -o /dev/null --wrap true

# at work
sub alice RUNNING -J run1 -w n2 -n2 -c2 --mem=500M -t 30:00 -o /dev/null --wrap 'exec sleep 6000'
sub alice RUNNING -J gpujob -p gpu -w n3 --gres=gpu:a100:2 -n1 -t 20:00 -o /dev/null --wrap 'exec sleep 6000'
mkdir -m 777 out
cat >job.sh <<'X'
#!/bin/bash
#SBATCH --job-name=train
#SBATCH --comment="hello, world"
exec sleep 6000
X
chmod 755 job.sh
sub alice RUNNING -J multi -w n[1-2] -N2 --ntasks-per-node=2 -t 1:00:00 -o "$1/out/%x-%j.out" job.sh one 'two words'
sub bob RUNNING -J bobjob -p one -n4 -t 10:00 -L matlab:2 -o /dev/null --wrap 'exec sleep 6000'
sub bob RUNNING -J arr -a 1-6%2 -p one -n1 -t 5-00:00:00 --mem-per-cpu=100 --wrap 'exec sleep 6000'
sub carol RUNNING -J still -p long -w n1 -n1 -o /dev/null -e still.err --wrap 'exec sleep 6000'; scontrol suspend "$J"; is "$J" SUSPENDED
sub root RUNNING -J roots -p one -n1 --nice=-20 -o /dev/null --wrap 'exec sleep 6000'
scontrol update nodename=n4 state=drain reason='disk failure, see #12'

# waiting
sub alice PENDING -J held -H -t 2-0 --wrap true
sub alice PENDING -J 'we ird|na,me%j=é' -H -p one,long --begin=2031-01-01T08:00:00 --wrap true
sub alice PENDING -J later --begin=2030-01-01T00:00:00 --mem=2G --wrap true
sub bob PENDING -J dep --dependency=afterok:7,afternotok:8+10 --kill-on-invalid-dep=no --wrap true
sub bob PENDING -J bobjob -d singleton -H -n9 -c3 --wrap true
sub carol PENDING -J features -C 'intel&avx2' -H -N2-4 --wrap true
sub carol PENDING -J bars -C 'intel|amd' -H --exclusive -t 90 --wrap true
sub alice PENDING -J steps -a 0-20:5,31,33-34%3 -H -n2 --wrap true
sub alice PENDING -J big -a 100-160 -H -q low --wrap true
sub bob PENDING -J lic -L 'matlab:2,ansys' -H --wckey=proj --wrap true
sub bob PENDING -J gpus -p gpu --gpus=2 --cpus-per-gpu=2 -H --wrap true
sub bob PENDING -J gputasks -p gpu --gpus-per-task=a100:1 -n3 -H --wrap true
sub alice PENDING -J placed -w n[1,3] -x n2 -H -N2 --switches=1@10 --wrap true
sub alice PENDING -J shaped -B 1:4:1 --ntasks-per-core=1 --tmp=100 --mincpus=3 -H -s --contiguous --mail-type=END,FAIL --mail-user=a@b --wrap true
sub carol PENDING -J due --deadline=2032-01-01 --time-min=10 -t 30 -H -A teaching --comment='a|b c' --wrap true
sub carol PENDING -J much -O -n20 -H --exclusive=user -q normal --signal=B:USR1@30 --no-requeue --wrap true
sub alice PENDING -J gone -w n4 --wrap true
sub alice PENDING -J shut -p closed --wrap true
sub alice PENDING -J wide -p small -N3 --wrap true
sub alice PENDING -J admins -H --wrap true; scontrol hold "$J"
sub alice PENDING -J again -H --nice=300 --wrap true
sub alice PENDING -J averyveryverylongnameofajobthatnocolumnholds -H -D /usr/share -i /etc/hostname -o 'o %x_%4j' --open-mode=append --wrap true

# Accounting hears of what waits within seconds.
for k in $(seq 40); do [ -n "$(sacct -n -X -a -j 34)" ] && break; sleep 0.5; done
