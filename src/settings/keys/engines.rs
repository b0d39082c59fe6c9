//! What carries a turn.

use super::{Group, file_only, spec};
use crate::settings::Engine;
use crate::settings::kinds::{Choice, OptionalText};

/// `--engine`.
pub static ENGINE: Choice<Engine> = Choice {
    spec: spec(
        "engine",
        "AUTOPILOT_ENGINE",
        Group::Claude,
        "ENGINE",
        "Drive `claude -p` (headless), or the interactive program in a pseudo-terminal (pty; needs the feature `pty`)",
    ),
    options: &[("headless", Engine::Headless), ("pty", Engine::Pty)],
};

/// Says what an unrecognised screen shows.
pub static TRIAGE_COMMAND: OptionalText = OptionalText {
    spec: file_only(
        "triage-command",
        "AUTOPILOT_TRIAGE_COMMAND",
        Group::Claude,
        "CMD",
        "With --engine pty: gets a screen that does not change, answers {\"state\": …, \"key\": …}; it can press Esc or 0, nothing else",
    ),
    example: "local-model --classify",
};
