# Sourced by the scenarios in place of the recorder beside them (see scenario.go), which it takes its functions from. Rows go to
# OUT as files: GROUP/INDEX-name.cmd .rc .out .err .seconds, INDEX counting the rows of the group within this scenario.
#   ONLY: the groups that are wanted, blanks between; empty: all.  NEED: groups that are played for their effects, unrecorded.
#   ROWS: an extended regular expression that a row's name has to match; empty: all.  LEAVE: "group/name" of rows that are not run.
#   REAL: the directory of the real recorder.
. "$REAL/record.sh"
GROUP=setup
declare -A counted

# idle says whether the scenario is in a part that was not asked for: nothing there is run, which is what makes one group quick.
idle() { [ -z "$ONLY" ] || [ "$GROUP" = setup ] && return 1; case " $ONLY $NEED " in *" $GROUP "*) return 1 ;; esac; return 0; }
wanted() { [ -z "$ONLY" ] || case " $ONLY " in *" $GROUP "*) true ;; *) false ;; esac; }

G() {
  local name=$1 cmd=$2 n=${counted[$GROUP]:-0} d f rc t0 t1
  counted[$GROUP]=$((n + 1))
  d=$O/$GROUP; mkdir -p "$d"; f=$d/$(printf %04d "$n")-${name//\//_}
  if idle || case " $LEAVE " in *" $GROUP/$name "*) true ;; *) false ;; esac; then : >"$f.left"; return; fi
  if ! wanted; then as "timeout -k 5 $TMO bash -c $(printf %q "$cmd")" </dev/null >/dev/null 2>&1; return; fi
  if [ -n "$ROWS" ] && [ "$GROUP" != setup ] && ! [[ $name =~ $ROWS ]]; then : >"$f.left"; return; fi
  t0=${EPOCHREALTIME/./}
  as "timeout -k 5 $TMO bash -c $(printf %q "$cmd")" <"${3:-/dev/null}" >"$f.out" 2>"$f.err"
  rc=$?; t1=${EPOCHREALTIME/./}
  printf %s "$cmd" >"$f.cmd"; echo $rc >"$f.rc"; echo $((t1 - t0)) >"$f.us"
}

# The recorder's own functions, and the commands that scenarios call directly, do nothing in such a part.
for f in as sub waitj waitrun settle reset script; do eval "real_$(declare -f $f)"; eval "$f() { idle && return 0; real_$f \"\$@\"; }"; done
for f in sleep squeue scancel scontrol sacctmgr; do eval "$f() { idle && return 0; command $f \"\$@\"; }"; done
reset() { idle && return 0; real_reset; GROUP=setup; }

# The recorded cluster ranked the jobs of the first scenario by shares and sizes, which is another matter than what is compared here, and began them all at once.
# Here they are held, and let go with the recorded priorities: those that ran one after the other, the first of them kept off n1; those that waited behind nodes
# that take nothing until all have their rank.
if [ "$SCENE" = s10_state ]; then
  ranked() { local r; for r in "$@"; do command scontrol update jobid="${r%=*}" priority="${r#*=}" >/dev/null 2>&1; done; }
  let_go() { # NODES JOB=PRIORITY: starts the job on one of the nodes
    command scontrol update nodename='n[1-4]' state=drain reason=staging
    command scontrol release "${2%=*}"; ranked "$2"
    command scontrol update nodename="$1" state=resume; sleep 0.7
  }
  reset() { # the first job was root's, and had ended
    idle && return 0
    real_reset; GROUP=setup
    [ -e "$O/first" ] && return 0
    U=root as 'srun -N2 -D /srv/oracle hostname' >"$O/first" 2>&1
    waitj 1
  }
  sub() {
    idle && return 0
    case $1 in
    '-J run1 '* | '-J gpujob '* | '-J multi '* | '-J bobjob '* | '-J arr '*) real_sub "-H $1"; return ;;
    '-J big '*) command scontrol update nodename='n[1-3]' state=drain reason=staging ;;
    esac
    real_sub "$@"
  }
  settle() {
    idle && return 0
    if [ -n "${A1:-}" ] && [ -z "${P1:-}" ]; then
      let_go 'n[2-4]' "$R1=600"; let_go 'n[1-4]' "$R2=797"; let_go 'n[1-4]' "$R3=725"; let_go 'n[1-4]' "$R4=2400"; let_go 'n[1-4]' "$A1=543"
    fi
    if [ -n "${P8:-}" ]; then
      ranked "$P1=975" "$P6=888" "$P4=543" "$P2=543" "$A1=543" "$P7=496" "$P5=478" "$P8=420"
      command scontrol update nodename='n[1-3]' state=resume
    fi
    real_settle "$@"
  }
fi

# A file that the first scenario had left. And an array of 50001 tasks, which waited behind other jobs of higher priority: none of its tasks had begun, and
# taken a number of its own, when the scenario was over.
if [ "$SCENE" = s20_submit ]; then
  printf 'n1\nn2\nn3\n' >"$(wd)/hl.txt"
  eval "let_$(declare -f G)"
  G() {
    if [ "$1" = err-_a_0_50000 ] && wanted; then
      command scontrol update nodename='n[1-4]' state=drain reason=staging
      let_G "$@"
      command scontrol hold "$(squeue -h -u "$U" -o %F | sort -n | tail -1)"
      command scontrol update nodename='n[1-4]' state=resume
    else let_G "$@"; fi
  }
fi

# When the recorder came to accounting, and to a job that waits for one of the first, the first jobs had long been forgotten by the controller.
# Here they are made to be.
if [ "$SCENE" = s40_life ]; then
  keeping() { sed -i "s/^MinJobAge=.*/MinJobAge=$1/" /etc/slurm/slurm.conf; command scontrol reconfigure; }
  forgotten() { # JOB…
    local j; keeping 2
    for j in "$@"; do for _ in $(seq 40); do command scontrol show job "$j" >/dev/null 2>&1 || break; command sleep 0.5; done; done
  }
  eval "played_$(declare -f G)"
  G() {
    [ "$GROUP/$1" = sacct/states ] && wanted && forgotten "$JN" "$T1"
    played_G "$@"
  }
fi

# The real controller looks at a job that was just submitted or released within three seconds, Stint at once. Where a recorded row tells of the moment before
# it did, the nodes take nothing meanwhile.
if [ "$SCENE" = s40_life ]; then
  taking() { # yes | no
    TAKING=$1
    case $1 in
    no) command scontrol update nodename='n[1-4]' state=drain reason=staging ;;
    yes) command scontrol update nodename='n[1-4]' state=resume ;;
    esac
  }
  starting() { command scontrol update partition=compute state="$1"; } # down: nothing starts, and that is the reason
  back() { local i; for i in $(seq 100); do case $(command sinfo -h -N -n "$1" -o %T) in *down*) command sleep 0.1 ;; *) return ;; esac; done; }
  eval "looked_$(declare -f G)"
  G() {
    idle || case $GROUP/$1/${TAKING:-} in
    control/user-release_J/) taking no ;; # the first one only
    array/release-one/*) starting down ;;
    # The recorded jobs had equal priorities, since they were as large and of one user.
    dependency/array-dep-pending/*) command scontrol update jobid="$B2" priority=500; command scontrol update jobid="$B3" priority=500 ;;
    dependency/singleton/*) command scontrol update jobid="$S1" priority=500; command scontrol update jobid="$S2" priority=500 ;;
    # A node that was set down serves again when it is heard (ReturnToService=2): the real controller had an answer on its way.
    nodes/undrain-sinfo/* | nodes/downrun-sinfo/*) back n2 ;;
    esac
    looked_G "$@"
    idle || case $GROUP/$1/${TAKING:-} in
    control/user-hold_J/no) taking yes ;;
    array/update-task/* | dependency/singleton/* | dependency/on-done-ok/*) starting up ;;
    array/cancel-task/*) touch "$(wd)/go" ;;
    dependency/on-done-failed/*) keeping 300 ;;
    esac
  }
  sub() { # of a row of scancel, whose name is the caller's n
    idle && return 0
    case $GROUP/$1 in
    # Jobs that the recorded cluster had not begun yet, or took a while to end.
    dependency/'-J sing --wrap '*) starting down >&2 ;;
    dependency/"-d afterok:$C0 "*) starting down >&2 ;;
    dependency/"-d afterok:$C3 "*) forgotten "$C3" >&2 ;;
    array/'-J arr '*)
      set -- '-J arr -a 0-20:5%2 --wrap "trap \"sleep 0.3; exit 0\" TERM; while [ \$SLURM_ARRAY_TASK_ID -gt 5 -o ! -e go ]; do sleep 0.1; done"' ;;
    scancel/'-J scr '*)
      case ${n:-} in
      one | name | jobname | part | state | state-pd | state-bad | Q | ctld | w-bad | wckey | res | u-bad | n-u) command scontrol update nodename='n[1-4]' state=drain reason=staging ;;
      *) command scontrol update nodename='n[1-4]' state=resume >/dev/null 2>&1 ;;
      esac
      ;;
    esac
    real_sub "$@"
  }
fi

# The recorded accounts tell of what had been done to nodes in the scenario before.
if [ "$SCENE" = s50_admin ]; then
  eval "managed_$(declare -f G)"
  G() {
    if [ "$GROUP/$1" = sacctmgr/show_events ] && wanted; then
      while read -r nodes state reason; do
        command scontrol update nodename="$nodes" state="$state" reason="$reason"
        [ "$state" = resume ] || command sleep 0.2
      done <<'X'
n1 drain x
n1 down x
n1 resume x
n2 drain testing
n2 resume x
n2 fail Set to State=FUTURE
n2 resume x
n2 drain crash
n2 resume x
n2 down crash2
n2 resume x
n[2-4] drain x
n[1-4] resume x
X
      for _ in $(seq 40); do [ "$(command sinfo -h -o %T | sort -u)" = idle ] && break; command sleep 0.2; done
    fi
    managed_G "$@"
  }
fi

# The recorded cluster's accounting stood while its controller was down. Here all that is needed for it is started for that row, without a controller.
if [ "$SCENE" = s50_admin ]; then
  eval "stood_$(declare -f G)"
  G() {
    local up=() r
    if [ "$GROUP/$1" = down/sacct__X__n ] && ! idle; then
      for r in bus ledger agent; do $STINT $r --dir "$DIR" >/dev/null 2>&1 & up+=($!); done
      for r in $(seq 100); do command sacct -n >/dev/null 2>&1 && break; command sleep 0.1; done
    fi
    stood_G "$@"
    if [ ${#up[@]} -gt 0 ]; then kill "${up[@]}"; wait "${up[@]}"; fi
  }
fi
