//! The PTY engine: the interactive `claude` in a pseudo-terminal, one process per attempt (feature `pty`).
//!
//! Theory of operation. The *screen* only ever decides which key is pressed ([`screen`], [`pilot`]); what happened and
//! whether it is over is read from the transcript ([`tail`]), whose lines become the facts that the headless engine
//! takes from its stream. Text is typed by the driver alone: the prompt, and the reason of a refusal. A permission
//! dialog is judged by the call that the transcript holds, and only if the screen shows that very call; the answer
//! comes from the core, as over the control protocol. What is not recognised is refused with Esc.
//!
//! Deviations from print mode, because the program offers no way: no budget of a single turn (`--max-budget-usd`), no
//! cost in dollars, and the report is asked for in the prompt and read from the last text.
//!
//! Sources: recovery §2, §3; claude-code §7, seen again on 2.1.332.

mod argv;
mod pilot;
mod report;
mod screen;
mod session;
mod tail;
mod timings;
mod triage;

pub use argv::argv;
pub use session::{Order, launch};
