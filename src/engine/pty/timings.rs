//! All constants of the engine in one table (recovery §2, §3.1, §3.4).

use std::time::Duration;

/// Rows and columns of the terminal.
pub(super) const ROWS: u16 = 40;
/// Columns; a nudge makes it one narrower for a moment.
pub(super) const COLUMNS: u16 = 120;
/// Between two looks at screen and transcript.
pub(super) const POLL: Duration = Duration::from_millis(500);
/// How long a ready screen must hold before it is believed.
pub(super) const READY_HOLDS: Duration = Duration::from_millis(2500);
/// From the start of the program to a ready screen.
pub(super) const BOOT: Duration = Duration::from_secs(45);
/// The same when a conversation is resumed, which may have to be read in.
pub(super) const BOOT_ON_RESUME: Duration = Duration::from_mins(10);
/// An unchanged screen at the start.
pub(super) const STUCK_IN_BOOT: Duration = Duration::from_secs(45);
/// An unchanged screen in a turn.
pub(super) const STUCK_IN_TURN: Duration = Duration::from_mins(8);
/// A later rung of the ladder comes after this.
pub(super) const REARM: Duration = Duration::from_mins(1);
/// R1: a transcript that was written to so lately says that it lives.
pub(super) const TRANSCRIPT_FRESH: Duration = Duration::from_secs(45);
/// R2: silence of the transcript after which an ended turn is believed without a ready screen.
pub(super) const QUIET_AFTER_END: Duration = Duration::from_mins(3);
/// Between a key for a dialog and the next one.
pub(super) const GATE_COOLDOWN: Duration = Duration::from_millis(900);
/// From the pasted text to Enter.
pub(super) const PASTE_TO_ENTER: Duration = Duration::from_millis(400);
/// From Enter to the growth of the transcript.
pub(super) const SUBMIT_WITHIN: Duration = Duration::from_secs(4);
/// Presses of Enter for one text.
pub(super) const ENTERS: u32 = 3;
/// Menus that are closed in a turn.
pub(super) const MENUS: u32 = 6;
/// Surveys that are closed in a turn.
pub(super) const SURVEYS: u32 = 8;
/// Tries at the warning about skipped permissions.
pub(super) const BYPASS_TRIES: u32 = 3;
/// Keys for one dialog that is there before the prompt.
pub(super) const BOOT_KEYS: u32 = 12;
/// Questions to the triage command in one wait.
pub(super) const TRIAGES: u32 = 3;
/// Longest run of the triage command.
pub(super) const TRIAGE_WITHIN: Duration = Duration::from_secs(20);
/// Characters of the screen that it gets.
pub(super) const TRIAGE_INPUT: usize = 4000;
/// Answer to a question; as in the headless engine.
pub(super) const ANSWER_WITHIN: Duration = Duration::from_secs(30);
/// Refused calls of a turn after each of which the session is told why; then the turn is over.
pub(super) const REFUSALS: u32 = 20;
/// Between the two presses of Ctrl-C that end the program.
pub(super) const EXIT_KEYS: Duration = Duration::from_millis(300);
