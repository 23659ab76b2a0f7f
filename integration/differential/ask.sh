#!/bin/bash
# ask.sh LIST OUT: runs each line of LIST in a shell of its own; OUT has what it printed, OUT.err what it complained of, each behind a line of the byte 1
# and the line's number, and OUT.rc what they exited with.
n=0
while IFS= read -r line; do
  n=$((n + 1))
  printf '\001%d\n' $n; printf '\001%d\n' $n >&2
  (eval "$line") </dev/null
  echo $? >&3
done <"$1" >"$2" 2>"$2.err" 3>"$2.rc"
