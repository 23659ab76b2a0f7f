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

# The recorded cluster began all jobs of the first scenario at once, in the order of their priorities, and planned with whole nodes; here each begins when it is
# submitted, and what fits beside a plan starts. To come to the recorded allocations the first job is kept off n1, one waits until the next is ranked before it,
# and nothing is filled in (see play.go).
if [ "$SCENE" = s10_state ]; then
  sub() {
    idle && return 0
    case $1 in
    '-J run1 '*) scontrol update nodename=n1 state=drain reason=staging >/dev/null 2>&1; real_sub "$@"; sleep 1; scontrol update nodename=n1 state=resume ;;
    '-J physj '*) scontrol update partition=phys state=down; behind=$(real_sub "$@"); echo "$behind" | tee "$O/behind" ;;
    '-J a_very_long'*)
      real_sub "$@"; scontrol update jobid="$(cat "$O/behind")" priority=1000 >/dev/null 2>&1; scontrol update partition=phys state=up >/dev/null 2>&1 ;;
    *) real_sub "$@" ;;
    esac
  }
fi
