#!/usr/bin/env bash
# Unpacks what save.sh packed, in place of a fresh checkout: the working tree becomes what the part before left.
set -euo pipefail

folder="$RUNNER_TEMP/autopilot"
conversations="${CLAUDE_CONFIG_DIR:-$HOME/.claude}"
# A fresh checkout and nothing else is to be replaced.
git rev-parse --show-toplevel >/dev/null
find . -mindepth 1 -delete
tar --extract --preserve-permissions --file "$folder/repository.tar"
if [[ -f $folder/conversations.tar ]]; then
  mkdir -p "$conversations"
  tar --extract --preserve-permissions --file "$folder/conversations.tar" --directory "$conversations"
fi
