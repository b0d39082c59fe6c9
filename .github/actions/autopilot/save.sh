#!/usr/bin/env bash
# Packs what the next part of a chain needs: the repository with its history, what is not committed yet, the state of
# the run, and the conversations. What git ignores otherwise (build output) stays behind.
set -euo pipefail

folder="$RUNNER_TEMP/autopilot"
conversations="${CLAUDE_CONFIG_DIR:-$HOME/.claude}"
mkdir -p "$folder"
{
  # Deleted files are still listed, and are not there to be packed.
  git ls-files -z --cached --others --exclude-standard | while IFS= read -r -d '' file; do
    if [[ -e $file || -L $file ]]; then printf '%s\0' "$file"; fi
  done
  printf '%s\0' .git .orchestrator
} | tar --create --file "$folder/repository.tar" --null --no-recursion --files-from - --recursion .git .orchestrator
if [[ -d $conversations/projects ]]; then
  tar --create --file "$folder/conversations.tar" --directory "$conversations" projects
fi
