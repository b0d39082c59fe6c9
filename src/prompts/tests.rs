use super::*;
use proptest::prelude::*;

fn context() -> Context {
    Context {
        session: 2,
        max_sessions: 5,
        wave_cap: 4,
        budget: Budget {
            time: Some(Duration::from_secs(8_000)),
            output_tokens: Some(321_000),
            cost_usd: Some(7.5),
        },
        ..Context::new(Mode::Feature)
    }
}

fn rendered(kind: Kind, context: &Context) -> String {
    render(kind, context, None).unwrap()
}

#[test]
fn a_session_on_a_prompt() {
    let context = Context {
        prompt: Some("Port the parser.\n\n  - keep {{ braces }} and <b>tags</b>\n".into()),
        verify: Some("cargo test".into()),
        ..context()
    };
    insta::assert_snapshot!(rendered(Kind::Session, &context));
}

#[test]
fn a_session_on_tasks_with_a_past() {
    let context = Context {
        session: 5,
        mode: Mode::Deep,
        wave_cap: 1,
        tasks: vec!["Split the parser (T12)".into(), "Document it".into()],
        handover: Some("The lexer is done; the tests of `expr` fail.".into()),
        do_not_retry: vec!["regenerating the grammar".into()],
        ..context()
    };
    insta::assert_snapshot!(rendered(Kind::Session, &context));
}

/// What differs between the modes: with tasks and without.
#[test]
fn every_mode_has_words_of_its_own() {
    for mode in Mode::ALL {
        let task = Task {
            id: "k3x9qa".into(),
            title: "Split the parser".into(),
            description: Some("It is too long.".into()),
            phase: vec!["Plan".into(), "Phase 2".into()],
            file: ".project/plan.md".into(),
            line: 14,
            ..Task::default()
        };
        let given = Context { mode, tasks: vec![task_words(&task)], ..context() };
        let alone = Context { mode, ..context() };
        let work = |context: &Context| {
            let text = rendered(Kind::Session, context);
            let (_, work) = text.split_once("## The work").unwrap();
            work.split_once("## The end").unwrap().0.trim().to_owned()
        };
        let both = format!("{}\n\n===== without tasks =====\n\n{}", work(&given), work(&alone));
        insta::assert_snapshot!(format!("mode_{mode}"), both);
    }
}

#[test]
fn a_session_that_finds_its_own_work() {
    let context = Context { mode: Mode::Discovery, wave_cap: 0, budget: Budget::default(), ..context() };
    insta::assert_snapshot!(rendered(Kind::Session, &context));
}

#[test]
fn close() {
    insta::assert_snapshot!(rendered(Kind::Close, &context()));
    let context = Context { problems: vec!["`status` is missing".into()], ..context() };
    assert!(rendered(Kind::Close, &context).contains("or not as asked (`status` is missing)."));
}

#[test]
fn reconcile() {
    let context = Context {
        instruction: Some("Port the parser.\n--------------------\nThen stop.".into()),
        cause: Some("no output for 10 minutes".into()),
        ..context()
    };
    insta::assert_snapshot!(rendered(Kind::Reconcile, &context));
}

#[test]
fn go_on() {
    let context = Context { cause: Some("usage limit, now reset".into()), ..context() };
    insta::assert_snapshot!(rendered(Kind::Continue, &context));
}

#[test]
fn handover() {
    let context = Context {
        instruction: Some("Port the parser.".into()),
        cause: Some("the API refuses the conversation".into()),
        git_state: Some("## main\n M src/parse.rs\n1f00aa Lexer".into()),
        last_texts: vec!["The lexer is done.".into(), "Now the parser:".into()],
        do_not_retry: vec!["the same call with thinking blocks".into()],
        verify: Some("cargo test".into()),
        ..context()
    };
    insta::assert_snapshot!(rendered(Kind::Handover, &context));
}

#[test]
fn nudge() {
    let context = Context {
        cause: Some("`cargo test` failed 5 times with the same error".into()),
        do_not_retry: vec!["running it again".into()],
        ..context()
    };
    insta::assert_snapshot!(rendered(Kind::Nudge, &context));
}

#[test]
fn every_prompt_reads_well_with_nothing_known() {
    for kind in Kind::ALL {
        for mode in Mode::ALL {
            let prompt = rendered(kind, &Context::new(mode));
            assert!(!prompt.contains("none") && !prompt.contains("\n\n\n"), "{prompt}");
            assert!(!prompt.starts_with("---"), "front matter is not sent: {prompt}");
            assert!(!prompt.trim_end().is_empty());
        }
    }
}

#[test]
fn slash_commands_go_out_as_they_are() {
    let check = |text: &str, expected: bool| assert_eq!(is_slash_command(text), expected, "{text}");
    check("/session-orchestrator:session feature", true);
    check("/compact", true);
    check("/x\nmore", true);
    check("/etc/hosts is wrong", false);
    check("/", false);
    check("/ x", false);
    check(" /compact", false);
    check("fix /compact", false);
    check("", false);

    let text = "/session-orchestrator:session feature {{ x }}";
    let context =
        Context { prompt: Some(text.into()), instruction: Some(text.into()), ..Context::new(Mode::Feature) };
    for kind in [Kind::Session, Kind::Reconcile, Kind::Handover] {
        assert_eq!(rendered(kind, &context), text);
    }
    assert_ne!(rendered(Kind::Continue, &context), text);
}

#[test]
fn a_plug_in_gets_the_modes_it_knows() {
    let check = |mode, prompt, expected: Option<&str>| {
        assert_eq!(session_command("so", mode, prompt).as_deref(), expected, "{mode} {prompt:?}");
    };
    check(Mode::Feature, None, Some("/so:session feature"));
    check(Mode::Deep, None, Some("/so:session deep"));
    check(Mode::Housekeeping, Some("tidy up\nand test"), Some("/so:session housekeeping tidy up\nand test"));
    check(Mode::Feature, Some("/etc/hosts is wrong"), Some("/so:session feature /etc/hosts is wrong"));
    // Another command than the one that was asked for would be sent.
    check(Mode::Feature, Some("/review 7"), None);
    for mode in [Mode::Discovery, Mode::Evolve, Mode::PlanRetro] {
        check(mode, None, None);
        check(mode, Some("look around"), None);
    }
    let sent = session_command("so", Mode::Feature, Some("{{ x }}")).unwrap();
    assert!(is_slash_command(&sent));
    assert_eq!(plugin_command(&sent), Some("so:session"));
    for other in ["/review 7", "/etc/a:b is wrong", "so:session", "/", ""] {
        assert_eq!(plugin_command(other), None, "{other}");
    }
}

fn override_with(name: &str, text: &str) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let mut file = fs::File::create(dir.path().join(name)).unwrap();
    io::Write::write_all(&mut file, text.as_bytes()).unwrap();
    dir
}

#[test]
fn a_repository_has_its_own_words() {
    let dir = override_with("continue.md", "---\r\ndescription: ours\r\n---\r\nGo on, {{ mode }}.\r\n");
    assert_eq!(render(Kind::Continue, &context(), Some(dir.path())).unwrap(), "Go on, feature.");
    // Those it does not have stay ours.
    assert_eq!(render(Kind::Close, &context(), Some(dir.path())).unwrap(), rendered(Kind::Close, &context()));
    assert!(check_overrides(dir.path()).is_ok());
    assert!(check_overrides(&dir.path().join("absent")).is_ok());
}

#[test]
fn a_wrong_template_is_named_with_its_line() {
    let check = |text: &str, line: usize, word: &str| {
        let dir = override_with("nudge.md", text);
        let error = check_overrides(dir.path()).unwrap_err().to_string();
        let place = format!("{}, line {line}: ", dir.path().join("nudge.md").display());
        assert!(error.contains(&place) && error.contains(word), "{error}");
    };
    check("one\n{{ mispelt }}\n", 2, "undefined");
    check("---\ndescription: x\n---\none\n{% if mode %}\n", 5, "syntax");
    check("---\ndescription: x\n---\n\n{{ mode | nofilter }}\n", 5, "filter");
    check("---\ndescription: never ends\n", 1, "front matter");
}

#[test]
fn an_unreadable_or_empty_template_is_an_error() {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join("session.md")).unwrap();
    let error = render(Kind::Session, &context(), Some(dir.path())).unwrap_err();
    assert!(matches!(error, PromptError::Read { .. }), "{error}");
    let dir = override_with("close.md", "---\ndescription: x\n---\n  \n");
    let error = render(Kind::Close, &context(), Some(dir.path())).unwrap_err();
    assert!(matches!(error, PromptError::Empty { .. }), "{error}");
}

#[test]
fn the_slash_command_for_people_has_front_matter() {
    assert!(SLASH_COMMAND.starts_with("---\ndescription: ") && SLASH_COMMAND.contains("$ARGUMENTS"));
}

proptest! {
    /// What a person wrote arrives byte for byte, whatever signs of a template or markup it has.
    #[test]
    fn values_arrive_as_written(text in "([{}%#<>&\"'-]|\\PC|\n)+") {
        prop_assume!(!is_slash_command(&text));
        let context = Context {
            prompt: Some(text.clone()),
            instruction: Some(text.clone()),
            tasks: vec![text.clone()],
            cause: Some(text.clone()),
            ..context()
        };
        prop_assert!(rendered(Kind::Session, &context).contains(&text));
        let prompt = rendered(Kind::Reconcile, &context);
        let ruler = ruler(std::iter::once(text.as_str()));
        prop_assert!(!text.contains(&ruler));
        let quoted = format!("{ruler}\n{text}\n{ruler}");
        prop_assert!(prompt.contains(&quoted));
        prop_assert!(rendered(Kind::Nudge, &context).contains(&text));
    }
}
