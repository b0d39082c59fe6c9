use super::*;

const READY: &str = "────\n❯\n────\n  ⏸ manual mode on · ? for shortcuts";
const TRUST: &str =
    " Accessing workspace:\n ❯ No, exit\n   Yes, I trust this folder\n Enter to confirm · Esc to cancel";
const TRUST_YES: &str =
    " Accessing workspace:\n   No, exit\n ❯ Yes, I trust this folder\n Enter to confirm · Esc to cancel";
const ASKS: &str = " Bash command\n touch a\n Do you want to proceed?\n ❯ 1. Yes\n   2. Yes, always\n   3. No\n Esc to cancel";
const SURVEY: &str =
    " How is Claude doing this session? (optional)\n  1: Bad   2: Fine   3: Good   0: Dismiss";
const MENU: &str = " Which one?\n ❯ 1. A\n   2. B\n Enter to select · Esc to cancel";

/// A program that shows what it is told to, at times that are told.
struct World {
    pilot: Pilot,
    now: Duration,
    screen: String,
    pending: Vec<Pending>,
    end: Option<End>,
    settled: bool,
    prompts: u32,
    grown: bool,
}

impl World {
    fn new(resume: bool, may_bypass: bool) -> Self {
        World {
            pilot: Pilot::new(Duration::ZERO, "Do it".to_owned(), resume, may_bypass),
            now: Duration::ZERO,
            screen: String::new(),
            pending: Vec::new(),
            end: None,
            settled: false,
            prompts: 0,
            grown: false,
        }
    }

    /// With the prompt taken.
    fn in_turn() -> Self {
        let mut world = World::new(false, false);
        world.screen = READY.to_owned();
        assert_eq!(world.until(5.0), [Act::Paste("Do it".to_owned()), Act::Enter]);
        world.prompts = 1;
        world.screen = "working".to_owned();
        assert_eq!(world.until(1.0), []);
        world
    }

    fn lines(&self) -> Vec<String> {
        self.screen.lines().map(str::to_owned).collect()
    }

    /// Looks every half second for so long; what it did.
    fn until(&mut self, seconds: f64) -> Vec<Act> {
        let end = self.now + Duration::from_secs_f64(seconds);
        let mut acts = Vec::new();
        while self.now < end {
            self.now += t::POLL;
            let lines = self.lines();
            acts.extend(self.pilot.look(&Seen {
                now: self.now,
                lines: &lines,
                grown: std::mem::take(&mut self.grown),
                pending: &self.pending,
                end: self.end.as_ref(),
                settled: self.settled,
                prompts: self.prompts,
            }));
        }
        acts
    }
}

fn gave_up(acts: &[Act]) -> bool {
    matches!(acts.last(), Some(Act::GiveUp(_)))
}

#[test]
fn a_folder_is_trusted_by_its_yes() {
    let mut world = World::new(false, false);
    world.screen = TRUST.to_owned();
    assert_eq!(world.until(1.0), [Act::Down]);
    world.screen = TRUST_YES.to_owned();
    assert_eq!(world.until(1.0), [Act::Enter]);
    world.screen = READY.to_owned();
    assert_eq!(world.until(2.0), [], "it must hold");
    assert_eq!(world.until(1.5), [Act::Paste("Do it".to_owned()), Act::Enter]);
}

#[test]
fn dialogs_before_the_prompt() {
    let bypass = " WARNING: Claude Code running in Bypass Permissions mode\n ❯ 1. No, exit\n   2. Yes, I accept\n Enter to confirm";
    for (screen, may_bypass, expected) in [
        (
            " New MCP server found in .mcp.json: x\n ❯ 1. Use this MCP server\n Enter to confirm",
            false,
            Act::Escape,
        ),
        (" Choose the text style that looks best\n ❯ 1. Dark mode", false, Act::Enter),
        (" Something new\n ❯ 1. Go on\n Enter to confirm", false, Act::Escape),
        (SURVEY, false, Act::Digit('0')),
        (MENU, false, Act::Escape),
        (bypass, true, Act::Down),
        (" Select login method:\n ❯ 1. Claude account", false, Act::Login),
    ] {
        let mut world = World::new(false, may_bypass);
        world.screen = screen.to_owned();
        assert_eq!(world.until(0.5), [expected], "{screen}");
    }
    let mut world = World::new(false, false);
    world.screen = bypass.to_owned();
    assert!(gave_up(&world.until(0.5)), "nobody said that permissions may be skipped");
}

#[test]
fn a_prompt_that_is_not_taken() {
    let mut world = World::new(false, false);
    world.screen = READY.to_owned();
    let acts = world.until(30.0);
    let keys: Vec<&Act> = acts.iter().filter(|act| !matches!(act, Act::GiveUp(_))).collect();
    assert_eq!(keys, [&Act::Paste("Do it".to_owned()), &Act::Enter, &Act::Nudge, &Act::Enter, &Act::Enter]);
    assert!(gave_up(&acts));
    // An Enter that was swallowed is pressed again.
    let mut world = World::new(false, false);
    world.screen = READY.to_owned();
    assert_eq!(world.until(8.5), [Act::Paste("Do it".to_owned()), Act::Enter, Act::Nudge, Act::Enter]);
    world.prompts = 1;
    assert_eq!(world.until(10.0), []);
}

#[test]
fn it_does_not_come_up() {
    for (resume, within) in [(false, 50.0), (true, 610.0)] {
        let mut world = World::new(resume, false);
        world.screen = "Loading".to_owned();
        assert!(gave_up(&world.until(within)), "{resume}");
    }
}

#[test]
fn a_dialog_is_answered_by_the_judgement_of_its_call() {
    let call = |command: &str| Pending {
        id: "toolu_1".to_owned(),
        tool: "Bash".to_owned(),
        input: serde_json::json!({"command": command}),
        sub_agent: false,
    };
    for (pending, known, allow, expected) in [
        (vec![call("ls"), call("touch a")], Some("touch a"), true, Act::Enter),
        (vec![call("touch a")], Some("touch a"), false, Act::Escape),
        // What the screen shows is not among the calls: nothing may be allowed on it.
        (vec![call("touch b")], None, false, Act::Escape),
        (vec![], None, false, Act::Escape),
    ] {
        let mut world = World::in_turn();
        world.screen = ASKS.to_owned();
        world.pending = pending;
        let acts = world.until(0.5);
        let [Act::Ask(id, asked)] = acts.as_slice() else { panic!("{acts:?}") };
        assert_eq!(asked.as_ref().and_then(|call| call.input["command"].as_str()), known);
        assert_eq!(world.until(5.0), [], "it waits");
        let lines = world.lines();
        assert_eq!(world.pilot.answered(world.now, "another", &lines, true, ""), []);
        assert_eq!(world.pilot.answered(world.now, id, &lines, allow, "why not"), [expected]);
    }
    // Another option than the plain yes is never taken.
    let mut world = World::in_turn();
    world.screen = ASKS.replace("❯ 1. Yes", "  1. Yes").replace("  2. Yes, always", "❯ 2. Yes, always");
    world.pending = vec![call("touch a")];
    let acts = world.until(0.5);
    let [Act::Ask(id, _)] = acts.as_slice() else { panic!("{acts:?}") };
    let lines = world.lines();
    assert_eq!(world.pilot.answered(world.now, id, &lines, true, ""), [Act::Escape]);
    // Nor is an answer that does not come.
    let mut world = World::in_turn();
    world.screen = ASKS.to_owned();
    world.pending = vec![call("touch a")];
    let acts = world.until(31.0);
    assert!(matches!(acts.as_slice(), [Act::Ask(..), Act::Escape]), "{acts:?}");
}

#[test]
fn a_dialog_that_stays_is_no_new_question() {
    for (allow, key) in [(true, Act::Enter), (false, Act::Escape)] {
        let mut world = World::in_turn();
        world.screen = ASKS.to_owned();
        world.pending = vec![Pending {
            id: "toolu_1".to_owned(),
            tool: "Bash".to_owned(),
            input: serde_json::json!({"command": "touch a"}),
            sub_agent: false,
        }];
        let acts = world.until(0.5);
        let [Act::Ask(id, _)] = acts.as_slice() else { panic!("{acts:?}") };
        let lines = world.lines();
        assert_eq!(world.pilot.answered(world.now, id, &lines, allow, "x"), std::slice::from_ref(&key));
        assert_eq!(world.until(3.5), [], "it is given time");
        assert_eq!(world.until(1.0), [key], "and the key again");
        world.screen = ASKS.replace("touch a", "touch a again");
        assert!(matches!(world.until(2.0).as_slice(), [Act::Ask(..)]), "another one");
    }
}

#[test]
fn who_was_refused_is_told_why() {
    let mut world = World::in_turn();
    world.screen = ASKS.to_owned();
    let acts = world.until(0.5);
    let [Act::Ask(id, None)] = acts.as_slice() else { panic!("{acts:?}") };
    let lines = world.lines();
    world.pilot.answered(world.now, id, &lines, false, "it is dangerous");
    world.screen = READY.to_owned();
    world.end = Some(End::Interrupted);
    let acts = world.until(4.0);
    let [Act::Paste(text), Act::Enter] = acts.as_slice() else { panic!("{acts:?}") };
    assert!(text.contains("it is dangerous"), "{text}");
    world.prompts = 2;
    world.end = Some(End::Turn("end_turn".to_owned()));
    assert_eq!(world.until(4.0), [Act::Over(End::Turn("end_turn".to_owned()))]);
}

#[test]
fn a_turn_is_over_by_the_transcript() {
    let mut world = World::in_turn();
    world.screen = READY.to_owned();
    assert_eq!(world.until(20.0), [], "an idle screen alone proves nothing");
    world.end = Some(End::Turn("end_turn".to_owned()));
    assert_eq!(world.until(0.5), [Act::Over(End::Turn("end_turn".to_owned()))]);
    assert_eq!(world.until(5.0), [], "once");
    world.pilot.leave();
    assert_eq!(world.until(1.0), [Act::ControlC, Act::ControlC]);

    // R2: the screen says nothing, but the transcript ended and is quiet.
    let mut world = World::in_turn();
    world.grown = true;
    world.screen = "✻ Brewing… (esc to interrupt)".to_owned();
    world.end = Some(End::Turn("end_turn".to_owned()));
    assert_eq!(world.until(175.0), []);
    assert_eq!(world.until(10.0), [Act::Over(End::Turn("end_turn".to_owned()))]);
}

#[test]
fn a_screen_that_does_not_change() {
    let mut world = World::in_turn();
    assert_eq!(world.until(470.0), []);
    // R1: it lives as long as the transcript grows.
    world.grown = true;
    assert_eq!(world.until(30.0), []);
    assert_eq!(world.until(440.0), []);
    // R3, R4, R5, each later rung after a minute.
    assert_eq!(world.until(60.0), [Act::Nudge]);
    assert_eq!(world.until(180.0), [Act::Triage, Act::Triage, Act::Triage]);
    assert!(gave_up(&world.until(60.0)));
}

#[test]
fn menus_and_surveys_have_limits() {
    let mut world = World::in_turn();
    world.screen = MENU.to_owned();
    let acts = world.until(20.0);
    assert_eq!(acts.iter().filter(|act| **act == Act::Escape).count(), 6);
    assert!(gave_up(&acts));
    let mut world = World::in_turn();
    world.screen = SURVEY.to_owned();
    let acts = world.until(20.0);
    assert_eq!(acts[..4], [Act::Digit('0'), Act::Escape, Act::Digit('0'), Act::Escape]);
    assert_eq!(acts.len(), 9);
    assert!(gave_up(&acts));
}

#[test]
fn a_triage_presses_little() {
    for (state, key, expected) in [
        ("survey", Some("0"), vec![Act::Digit('0')]),
        ("survey", Some("1"), vec![]),
        ("survey", Some("esc"), vec![Act::Escape]),
        ("menu", Some("enter"), vec![]),
        ("menu", Some("esc"), vec![Act::Escape]),
        ("gate", Some("enter"), vec![Act::Escape]),
        ("gate", None, vec![Act::Escape]),
        ("unknown", Some("3"), vec![]),
        ("working", Some("esc"), vec![]),
        ("ready", Some("enter"), vec![]),
    ] {
        let mut world = World::in_turn();
        assert_eq!(world.pilot.triaged(world.now, state, key), expected, "{state} {key:?}");
    }
    let mut world = World::new(false, false);
    assert_eq!(world.pilot.triaged(world.now, "ready", None), [Act::Paste("Do it".to_owned())]);
}
