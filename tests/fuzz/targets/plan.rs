//! plan.md and inbox.md. Reading changes nothing; ticking changes the marks of boxes and no other byte; what
//! leaves the inbox is in the plan.

use std::fs;
use std::path::Path;

use autopilot::plan;
use jiff::Timestamp;

fn files(root: &Path) -> [Vec<u8>; 2] {
    ["plan.md", "inbox.md"].map(|name| fs::read(root.join(".project").join(name)).unwrap_or_default())
}

/// The first byte is how much of the rest, in parts of 256, is the inbox.
pub fn run(mut data: &[u8]) {
    let part = super::byte(&mut data);
    let (inbox, text) = data.split_at(data.len() * part / 256);
    let folder = super::folder();
    let root = folder.path();
    let ledger = root.join("tasks.json");
    fs::create_dir(root.join(".project")).expect("memory");
    fs::write(root.join(".project/plan.md"), text).expect("memory");
    if !inbox.is_empty() {
        fs::write(root.join(".project/inbox.md"), inbox).expect("memory");
    }
    let before = files(root);

    let looked = plan::look(root, &ledger, Timestamp::UNIX_EPOCH);
    assert!(!ledger.exists(), "a look leaves nothing");
    let loaded = plan::load(root, &ledger, Timestamp::UNIX_EPOCH);
    assert_eq!(files(root), before, "reading changes nothing");
    let ids = |tasks: &plan::Tasks| tasks.open.iter().map(|task| task.id.clone()).collect::<Vec<_>>();
    assert_eq!(ids(&looked), ids(&loaded));
    let again = plan::load(root, &ledger, Timestamp::UNIX_EPOCH);
    assert_eq!(ids(&loaded), ids(&again), "an id stays");

    let given = ids(&loaded);
    let settled = plan::settle(root, &ledger, &given, &given, "s");
    let after = files(root);
    for (old, new) in before.iter().zip(&after) {
        assert_eq!(old.len(), new.len());
        for (at, (old_byte, new_byte)) in old.iter().zip(new).enumerate() {
            if old_byte != new_byte {
                assert_eq!((*old_byte, *new_byte), (b' ', b'x'), "at {at}");
                assert!(at > 0 && old[at - 1] == b'[' && old.get(at + 1) == Some(&b']'), "no box at {at}");
            }
        }
    }
    let marks = before.iter().zip(&after).flat_map(|(old, new)| old.iter().zip(new)).filter(|(a, b)| a != b);
    assert_eq!(marks.count(), settled.ticked_by_us.len());

    if let Ok(taken) = plan::take_inbox(root, &ledger, Timestamp::UNIX_EPOCH) {
        let [plan, _] = files(root);
        // The plan only ever grows.
        assert!(plan.len() >= after[0].len(), "{taken:?}");
        // What was under a heading may make an item of the heading once it is gone; what was taken is taken.
        if let Ok(twice) = plan::take_inbox(root, &ledger, Timestamp::UNIX_EPOCH) {
            let again = twice.added.iter().find(|title| taken.added.contains(title));
            assert_eq!(again, None, "{taken:?}, {twice:?}, inbox {:?}", String::from_utf8_lossy(inbox));
            assert!(files(root)[0].starts_with(&plan), "{twice:?}");
        }
    }
}
