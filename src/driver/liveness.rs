//! The second look before silence counts as a stall.
//!
//! A silent stream is not a hung session: the transcript may grow (field-reports A04), and a tool may be
//! compiling for twenty minutes. So a stall needs silence of stream *and* transcript while no tool process of
//! the session makes progress in CPU time or I/O (design §3).

use std::path::PathBuf;
use std::time::Duration;

use jiff::Timestamp;

use crate::engine::Handle;
use crate::transcript;

/// Longest time between two looks at the tools. Shorter than that, a slow disk looks idle.
const LOOK: Duration = Duration::from_secs(2);

/// How long ago something moved although the stream is silent; `None` = nothing does.
pub(super) async fn moving(
    handle: Handle,
    transcript: Option<PathBuf>,
    stall_timeout: Duration,
    wall: Timestamp,
) -> Option<Duration> {
    let stat = || transcript.as_deref().and_then(|path| transcript::stat(path).ok().flatten());
    let before = stat();
    let written = before.and_then(|stat| Timestamp::try_from(stat.modified).ok());
    let age = written.map(|written| wall.duration_since(written).unsigned_abs());
    if let Some(age) = age.filter(|age| *age < stall_timeout) {
        return Some(age);
    }
    let tools_before = handle.activity().await;
    tokio::time::sleep(LOOK.min(stall_timeout / 2)).await;
    if stat() != before {
        return Some(Duration::ZERO);
    }
    match (tools_before, handle.activity().await) {
        (Some(before), Some(after))
            if after.live > 0 && (after.cpu_ticks > before.cpu_ticks || after.io_bytes > before.io_bytes) =>
        {
            Some(Duration::ZERO)
        }
        _ => None,
    }
}
