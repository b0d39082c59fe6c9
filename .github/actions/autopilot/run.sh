#!/usr/bin/env bash
# One part of a chain: begins the run, or goes on with the one that the part before left. The deadline makes it land
# before the job is ended; autopilot itself writes the outputs and the summary of the step.
set -euo pipefail

if [[ ${PART:-1} == 1 ]]; then
  # Words as a shell splits them, without expanding anything in them.
  readarray -d '' -t options < <(xargs printf '%s\0' <<<"${OPTIONS:-}")
  # Nothing at all makes one empty word.
  [[ ${#options[@]} == 1 && -z ${options[0]} ]] && options=()
  exec "${PROGRAM:-autopilot}" run --deadline="$MINUTES" "${options[@]}"
fi
# What the first part was told is in the run's folder.
exec "${PROGRAM:-autopilot}" resume --deadline="$MINUTES"
