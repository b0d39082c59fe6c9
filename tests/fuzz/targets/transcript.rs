//! The end of a transcript. A digest is made of any file from any offset, in bounded size; where nothing was
//! added, nothing has grown.

use std::cell::OnceCell;
use std::fs;
use std::path::PathBuf;

use autopilot::core::transcript_digest::Growth;
use autopilot::transcript::{Limits, digest, digest_within};

thread_local! {
    static FILE: OnceCell<(tempfile::TempDir, PathBuf)> = const { OnceCell::new() };
}

/// Small enough for an input to go beyond them.
const SMALL: Limits = Limits { soft: 256, hard: 1024, line: 512, text: 32 };

/// The first two bytes are the offset.
pub fn run(mut data: &[u8]) {
    let offset = (super::byte(&mut data) << 8 | super::byte(&mut data)) as u64;
    FILE.with(|file| {
        let (_, path) = file.get_or_init(|| {
            let folder = super::folder();
            let path = folder.path().join("x.jsonl");
            (folder, path)
        });
        fs::write(path, data).expect("memory");
        let size = data.len() as u64;
        let found = digest(path, offset).expect("a file that is there is digested");
        assert!(found.exists);
        assert_eq!(found.growth, Growth::of(size, offset));
        assert!(found.reply.as_ref().is_none_or(|reply| reply.text.len() <= Limits::default().text + 64));
        let small = digest_within(path, offset, &SMALL).expect("the same with less to look at");
        assert_eq!(small.growth, found.growth);
        assert!(small.reply.as_ref().is_none_or(|reply| reply.text.len() <= SMALL.text + 64));
        let at_end = digest(path, size).expect("from its end");
        assert_eq!(at_end.growth, Growth::of(size, size));
    });
}
