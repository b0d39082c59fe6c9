use std::time::Duration;

use super::*;
use crate::core::autonomy::Autonomy;
use crate::core::mode::Mode;
use crate::core::notice::NoticeKind;
use crate::settings::Chain;
use crate::settings::key::Setting;
use crate::settings::{FollowUps, Forge};

fn file(path: &str, text: &str) -> ConfigFile {
    ConfigFile { path: PathBuf::from(path), text: text.to_owned() }
}

fn flag(setting: &dyn Setting, raw: Raw) -> Layer {
    let mut layer = Layer::new();
    layer.flag(setting, Some(raw));
    layer
}

fn from_flag(setting: &dyn Setting, raw: Raw) -> Result<Resolved, SettingsError> {
    resolve(&flag(setting, raw), &|_| None, None, None)
}

fn from_env(variable: &str, text: &str) -> Result<Resolved, SettingsError> {
    resolve(&Layer::new(), &|name| (name == variable).then(|| text.into()), None, None)
}

fn from_file(text: &str) -> Result<Resolved, SettingsError> {
    resolve(&Layer::new(), &|_| None, Some(&file("/repo/.autopilot.toml", text)), None)
}

/// The raw value a flag would give for an example.
fn raw(shown: &Shown) -> Raw {
    match shown {
        Shown::Number(number) => Raw::Number(*number),
        Shown::Flag(flag) => Raw::Flag(*flag),
        Shown::Text(text) => Raw::Text(text.clone()),
        Shown::List(items) => Raw::List(items.clone()),
    }
}

#[test]
fn defaults_are_those_of_the_design() {
    let resolved = resolve(&Layer::new(), &|_| None, None, None).unwrap();
    assert_eq!(resolved.notices, Vec::<String>::new());
    let expected = Settings {
        budgets: Budgets {
            max_sessions: 5,
            max_hours: 4.0,
            limit_wait_free: false,
            reserve: 0.0,
            max_tokens: 500_000,
            max_cost: None,
        },
        stop_rules: StopRules {
            confidence_threshold: 0.85,
            carryover_threshold: 0.5,
            peer_abort: 6,
            autonomy: Autonomy::Advisory,
            confidence_floor: 0.5,
            stuck_detection: true,
        },
        deadlines: Deadlines {
            stall: Duration::from_mins(10),
            first_output: Duration::from_mins(3),
            turn: Duration::from_mins(90),
            exit_grace: Duration::from_secs(15),
            max_wait: Duration::from_hours(6),
            verify: Duration::from_mins(30),
            escalation: Duration::from_mins(20),
            turn_backoff: vec![Duration::from_secs(5), Duration::from_secs(30)],
            heal_backoff: [120, 240, 480].map(Duration::from_secs).to_vec(),
            peer_grace: Duration::from_mins(5),
            deadline: None,
        },
        work: Work {
            mode: None,
            prompt: None,
            verify: None,
            chain: Chain::Fresh,
            agents_per_wave: 8,
            session_command: None,
            forge: Forge::Auto,
            backlog_label: None,
            state_file: true,
            follow_ups: FollowUps { verify: true, docs: false },
        },
        claude: Claude {
            bin: PathBuf::from("claude"),
            model: None,
            fallback_model: None,
            permission_mode: "acceptEdits".to_owned(),
            allowed_tools: Vec::new(),
            mcp_config: Vec::new(),
            args: Vec::new(),
            billing: crate::settings::Billing::Inherit,
            engine: crate::settings::Engine::Headless,
            triage: None,
        },
        safety: Safety {
            dry_run: false,
            allow_nested: false,
            allow_peers: false,
            no_inhibit: false,
            gate: crate::core::gate::Policy::Guard,
            rules: crate::core::gate::Rules::default(),
            keep_runs: 50,
            keep_size: 2_000,
        },
        notifications: Notifications {
            command: None,
            webhooks: Vec::new(),
            desktop: false,
            mail: None,
            on: NoticeKind::ALL.into_iter().filter(|kind| *kind != NoticeKind::Started).collect(),
            quiet_hours: None,
            urgent_always: true,
            cooldown: Duration::from_mins(15),
        },
    };
    assert_eq!(resolved.settings, expected);
}

#[test]
fn every_setting_has_a_default_a_variable_a_key_and_an_origin() {
    let defaults = resolve(&Layer::new(), &|_| None, None, None).unwrap();
    let names: Vec<_> = defaults.entries.iter().map(|entry| entry.name).collect();
    assert_eq!(names, keys::ALL.map(|setting| setting.spec().name));
    for setting in keys::ALL {
        let (spec, example) = (setting.spec(), setting.example());
        let entry = defaults.entry(spec.name).unwrap();
        assert_eq!((&entry.shown, &entry.origin), (&setting.default_shown(), &Origin::Default));

        let check = |resolved: Result<Resolved, SettingsError>, origin: Origin| {
            let resolved = resolved.unwrap_or_else(|error| panic!("{}: {error}", spec.name));
            let entry = resolved.entry(spec.name).unwrap().clone();
            assert_eq!(entry.origin, origin, "{}", spec.name);
            entry.shown
        };
        let line = format!("# one\n{} = {}\n", spec.name, example.toml());
        let origin = Origin::File { path: PathBuf::from("/repo/.autopilot.toml"), line: 2 };
        let shown = check(from_file(&line), origin);
        assert!(shown.is_some(), "{}", spec.name);
        let shown = check(from_env(spec.env, &example.words()), Origin::Env(spec.env));
        assert_eq!(shown, Some(example.clone()), "{}", spec.name);
        let shown = check(from_flag(setting, raw(&example)), Origin::Flag(spec.name));
        assert_eq!(shown, Some(example), "{}", spec.name);
    }
}

#[test]
fn stronger_layers_win() {
    let user = file("/home/me/config.toml", "max-sessions = 2\nmax-hours = 2\nmax-tokens = 2\nmodel = 'u'");
    let repository = file("/repo/.autopilot.toml", "max-sessions = 3\nmax-hours = 3\nmax-tokens = 3");
    let env = |name: &str| match name {
        "AUTOPILOT_MAX_SESSIONS" | "AUTOPILOT_MAX_HOURS" => Some(OsString::from("4")),
        _ => None,
    };
    let flags = flag(&keys::MAX_SESSIONS, Raw::Number(5.0));
    let resolved = resolve(&flags, &env, Some(&repository), Some(&user)).unwrap();
    let budgets = &resolved.settings.budgets;
    assert_eq!((budgets.max_sessions, budgets.max_tokens), (5, 3));
    assert_eq!(budgets.max_hours.to_string(), "4");
    assert_eq!(resolved.settings.claude.model.as_deref(), Some("u"));
    let origins: Vec<_> = ["max-sessions", "max-hours", "max-tokens", "model", "max-cost"]
        .map(|name| resolved.entry(name).unwrap().origin.to_string())
        .into();
    insta::assert_snapshot!(origins.join("\n"), @r"
    --max-sessions
    AUTOPILOT_MAX_HOURS
    /repo/.autopilot.toml:3
    /home/me/config.toml:4
    default
    ");
}

/// Bounds of design §3 and the vectors of upstream-formats §4.1 and §16.
#[test]
fn numbers_are_clamped_and_say_so() {
    let check = |setting: &dyn Setting, given: f64, used: f64, remark: &str| {
        let resolved = from_flag(setting, Raw::Number(given)).unwrap();
        let name = setting.spec().name;
        assert_eq!(resolved.entry(name).unwrap().shown, Some(Shown::Number(used)), "{name} {given}");
        let expected: Vec<String> = if remark.is_empty() { vec![] } else { vec![remark.to_owned()] };
        assert_eq!(resolved.notices, expected, "{name} {given}");
    };
    let n = &keys::MAX_SESSIONS;
    check(n, 999.0, 50.0, "--max-sessions 999 is above the bound: using 50");
    check(n, 50.9, 50.0, "--max-sessions 50.9 is above the bound: using 50");
    check(n, 50.0, 50.0, "");
    check(n, 3.7, 3.0, "--max-sessions 3.7 is not a whole number: using 3");
    check(n, 1.0, 1.0, "");
    check(n, 0.5, 1.0, "--max-sessions 0.5 is below the bound: using 1");
    check(n, 0.0, 1.0, "--max-sessions 0 is below the bound: using 1");
    check(n, -5.0, 1.0, "--max-sessions -5 is below the bound: using 1");
    check(n, 1e300, 50.0, "--max-sessions 1e300 is above the bound: using 50");
    let h = &keys::MAX_HOURS;
    check(h, 0.0, 0.5, "--max-hours 0 is below the bound: using 0.5");
    check(h, 100.0, 24.0, "--max-hours 100 is above the bound: using 24");
    check(h, 1.25, 1.25, "");
    let c = &keys::CONFIDENCE_THRESHOLD;
    check(c, 2.0, 1.0, "--confidence-threshold 2 is above the bound: using 1");
    check(c, -0.5, 0.0, "--confidence-threshold -0.5 is below the bound: using 0");
    check(c, 0.5, 0.5, "");
    check(
        c,
        0.49,
        0.49,
        "--confidence-threshold 0.49 is below 0.5: a run will wander between modes more or less at random",
    );
    let t = &keys::MAX_TOKENS;
    check(t, 2e7, 1e7, "--max-tokens 20000000 is above the bound: using 10000000");
    check(t, 0.0, 0.0, "");
    check(t, -1.0, 0.0, "--max-tokens -1 is below the bound: using 0");
    check(&keys::MAX_COST, -1.0, 0.0, "--max-cost -1 is below the bound: using 0");
    check(&keys::MAX_COST, 0.0, 0.0, "--max-cost 0 means no limit on cost");
    check(&keys::MAX_COST, 1e9, 1e9, "");
    check(&keys::CARRYOVER_THRESHOLD, 1.5, 1.0, "--carryover-threshold 1.5 is above the bound: using 1");
    check(&keys::CARRYOVER_THRESHOLD, -1.0, 0.0, "--carryover-threshold -1 is below the bound: using 0");
    check(&keys::PEER_ABORT, 101.0, 100.0, "--peer-abort 101 is above the bound: using 100");
    check(&keys::PEER_ABORT, -1.0, 0.0, "--peer-abort -1 is below the bound: using 0");
    check(&keys::STALL_TIMEOUT, 4.0, 5.0, "--stall-timeout 4 is below the bound: using 5");
    check(&keys::STALL_TIMEOUT, 86_401.0, 86_400.0, "--stall-timeout 86401 is above the bound: using 86400");
    check(&keys::FIRST_OUTPUT_TIMEOUT, 0.0, 1.0, "--first-output-timeout 0 is below the bound: using 1");
    check(
        &keys::FIRST_OUTPUT_TIMEOUT,
        3_601.0,
        3_600.0,
        "--first-output-timeout 3601 is above the bound: using 3600",
    );
    check(&keys::TURN_TIMEOUT, 0.01, 0.05, "--turn-timeout 0.01 is below the bound: using 0.05");
    check(&keys::TURN_TIMEOUT, 1_441.0, 1_440.0, "--turn-timeout 1441 is above the bound: using 1440");
    check(&keys::EXIT_GRACE, 0.0, 1.0, "--exit-grace 0 is below the bound: using 1");
    check(&keys::EXIT_GRACE, 601.0, 600.0, "--exit-grace 601 is above the bound: using 600");
    check(&keys::MAX_WAIT, -1.0, 0.0, "--max-wait -1 is below the bound: using 0");
    check(&keys::MAX_WAIT, 193.0, 192.0, "--max-wait 193 is above the bound: using 192");
    check(&keys::AGENTS_PER_WAVE, 0.0, 1.0, "--agents-per-wave 0 is below the bound: using 1");
}

#[test]
fn values_have_their_types() {
    let settings = from_file(
        "max-cost = 2.5\nturn-timeout = 0.05\nstall-timeout = 7.5\nmax-wait = 1.5\nmode = 'plan-retro'\n\
         chain = 'resume'\nbilling = 'inherit'\ndry-run = true",
    )
    .unwrap()
    .settings;
    assert_eq!(settings.budgets.max_cost, Some(2.5));
    assert_eq!(settings.deadlines.turn, Duration::from_secs(3));
    assert_eq!(settings.deadlines.stall, Duration::from_millis(7_500));
    assert_eq!(settings.deadlines.max_wait, Duration::from_mins(90));
    assert_eq!(settings.work.mode, Some(Mode::PlanRetro));
    assert_eq!(settings.work.chain, Chain::Resume);
    assert_eq!(settings.claude.billing, crate::settings::Billing::Inherit);
    assert!(settings.safety.dry_run);
}

#[test]
fn notices_name_the_source() {
    assert_eq!(
        from_env("AUTOPILOT_MAX_HOURS", "99").unwrap().notices,
        ["AUTOPILOT_MAX_HOURS=99 is above the bound: using 24"]
    );
    assert_eq!(
        from_file("max-hours = 99").unwrap().notices,
        ["/repo/.autopilot.toml:1: max-hours = 99 is above the bound: using 24"]
    );
}

#[test]
fn no_notice_for_a_value_that_is_not_used() {
    let flags = flag(&keys::MAX_HOURS, Raw::Number(2.0));
    let resolved = resolve(&flags, &|_| None, Some(&file("c.toml", "max-hours = 99")), None).unwrap();
    assert_eq!(resolved.notices, Vec::<String>::new());
}

#[test]
fn wrong_values_are_refused_with_place_and_expectation() {
    let check = |result: Result<Resolved, SettingsError>, message: &str, hint: &str| {
        let error = result.unwrap_err();
        assert_eq!(error.to_string(), message);
        assert_eq!(error.hints().first().map_or("", String::as_str), hint);
    };
    check(
        from_file("max-sessions = \"5\""),
        "/repo/.autopilot.toml:1: `max-sessions`: expected a number, found the string \"5\"",
        "for example `max-sessions = 5`",
    );
    check(
        from_file("mode = \"featur\""),
        "/repo/.autopilot.toml:1: `mode`: expected one of auto, housekeeping, feature, deep, discovery, evolve, \
         plan-retro, found the string \"featur\"",
        "did you mean `feature`?",
    );
    check(
        from_file("dry-run = 1"),
        "/repo/.autopilot.toml:1: `dry-run`: expected true or false, found the number 1",
        "for example `dry-run = true`",
    );
    check(
        from_file("claude-bin = \"\""),
        "/repo/.autopilot.toml:1: `claude-bin`: expected a path that is not empty, found the string \"\"",
        "for example `claude-bin = \"/opt/bin/claude\"`",
    );
    check(
        from_file("max-session = 5"),
        "/repo/.autopilot.toml:1: unknown key `max-session`",
        "did you mean `max-sessions`?",
    );
    check(
        from_file("max_hours = 5"),
        "/repo/.autopilot.toml:1: unknown key `max_hours`",
        "did you mean `max-hours`?",
    );
    check(
        from_file("color = 'never'"),
        "/repo/.autopilot.toml:1: unknown key `color`",
        "`--color` is an option of the command line only",
    );
    check(
        from_file("[budgets]\nmax-hours = 5"),
        "/repo/.autopilot.toml:1: unknown key `budgets`",
        "`autopilot config show` lists all keys",
    );
    check(
        from_env("AUTOPILOT_MAX_SESSIONS", "abc"),
        "AUTOPILOT_MAX_SESSIONS: expected a number, found `abc`",
        "for example `AUTOPILOT_MAX_SESSIONS=5`",
    );
    for text in ["NaN", "inf", "0x10", " 5", "5h"] {
        assert!(from_env("AUTOPILOT_MAX_SESSIONS", text).is_err(), "{text:?}");
    }
    check(
        from_env("AUTOPILOT_DRY_RUN", "maybe"),
        "AUTOPILOT_DRY_RUN: expected true or false, found `maybe`",
        "for example `AUTOPILOT_DRY_RUN=true`",
    );
}

#[test]
fn a_wrong_value_is_refused_even_where_a_flag_hides_it() {
    let flags = flag(&keys::MAX_HOURS, Raw::Number(2.0));
    assert!(resolve(&flags, &|_| None, Some(&file("c.toml", "max-hours = 'x'")), None).is_err());
}

#[test]
fn variables_that_say_yes_and_no() {
    for (text, expected) in
        [("1", true), ("true", true), ("YES", true), ("on", true), ("0", false), ("Off", false)]
    {
        assert_eq!(from_env("AUTOPILOT_DRY_RUN", text).unwrap().settings.safety.dry_run, expected, "{text}");
    }
}

#[cfg(unix)]
#[test]
fn variables_that_are_not_utf_8() {
    use std::os::unix::ffi::OsStringExt as _;
    let odd = OsString::from_vec(b"/opt/\xff".to_vec());
    let env = |wanted: &'static str| {
        let odd = odd.clone();
        move |name: &str| (name == wanted).then(|| odd.clone())
    };
    let resolved = resolve(&Layer::new(), &env("AUTOPILOT_CLAUDE_BIN"), None, None).unwrap();
    assert_eq!(resolved.settings.claude.bin, PathBuf::from(&odd));
    assert!(resolve(&Layer::new(), &env("AUTOPILOT_MODEL"), None, None).is_err());
    assert!(resolve(&Layer::new(), &env("AUTOPILOT_MAX_HOURS"), None, None).is_err());
}

#[test]
fn prompts() {
    let check = |text: &str, expected: Option<PromptSource>| {
        let resolved = from_file(text).unwrap();
        assert_eq!(resolved.settings.work.prompt, expected, "{text}");
    };
    check("", None);
    check("prompt = 'do it'", Some(PromptSource::Text("do it".to_owned())));
    check("prompt-file = 'night.md'", Some(PromptSource::File(PathBuf::from("/repo/night.md"))));
    check("prompt-file = '/abs.md'", Some(PromptSource::File(PathBuf::from("/abs.md"))));
    check("prompt-file = '-'", Some(PromptSource::Stdin));
    let long = "x".repeat(300_000);
    check(&format!("prompt = '{long}'"), Some(PromptSource::Text(long.clone())));
}

#[test]
fn blank_prompts_are_refused() {
    for text in ["prompt = ' '", "prompt = \"\\n\\t\"", "prompt = \"\\u00a0\""] {
        assert!(matches!(from_file(text), Err(SettingsError::BlankPrompt { .. })), "{text}");
    }
    assert!(from_file("prompt = ''").is_err());
    let error = from_flag(&keys::PROMPT, Raw::Text("  ".to_owned())).unwrap_err();
    assert_eq!(error.to_string(), "--prompt is blank");
    assert!(error.is_command_line());
}

#[test]
fn two_prompts() {
    let error = from_file("prompt = 'a'\nprompt-file = 'b'").unwrap_err();
    insta::assert_snapshot!(error, @"/repo/.autopilot.toml:1: `prompt` and /repo/.autopilot.toml:2: `prompt-file` cannot both be set");
    // The stronger source wins, whichever of the two it gives.
    let repository = file("/repo/.autopilot.toml", "prompt = 'a'");
    let flags = flag(&keys::PROMPT_FILE, Raw::Path(PathBuf::from("b")));
    let resolved = resolve(&flags, &|_| None, Some(&repository), None).unwrap();
    assert_eq!(resolved.settings.work.prompt, Some(PromptSource::File(PathBuf::from("b"))));
    assert_eq!(resolved.entry("prompt").unwrap().shown, None);
    let repository = file("/repo/.autopilot.toml", "prompt-file = 'b'");
    let flags = flag(&keys::PROMPT, Raw::Text("a".to_owned()));
    let resolved = resolve(&flags, &|_| None, Some(&repository), None).unwrap();
    assert_eq!(resolved.settings.work.prompt, Some(PromptSource::Text("a".to_owned())));
    assert_eq!(resolved.entry("prompt-file").unwrap().shown, None);
}

#[test]
fn home_is_expanded_where_no_shell_was() {
    let env = |name: &str| match name {
        "HOME" => Some(OsString::from("/home/me")),
        "AUTOPILOT_CLAUDE_BIN" => Some(OsString::from("~/bin/claude")),
        _ => None,
    };
    let resolved = resolve(&Layer::new(), &env, None, None).unwrap();
    assert_eq!(resolved.settings.claude.bin, PathBuf::from("/home/me/bin/claude"));
    let flags = flag(&keys::CLAUDE_BIN, Raw::Path(PathBuf::from("~/x")));
    assert_eq!(resolve(&flags, &env, None, None).unwrap().settings.claude.bin, PathBuf::from("~/x"));
}

#[test]
fn addresses_of_webhooks_are_never_shown() {
    let read = |text: &str| {
        let file = ConfigFile { path: "/r/.autopilot.toml".into(), text: text.to_owned() };
        resolve(&Layer::new(), &|_| None, Some(&file), None)
    };
    let resolved = read("notify-webhook = \"https://hooks.slack.com/services/geheim\"").unwrap();
    assert_eq!(
        resolved.entry("notify-webhook").unwrap().shown,
        Some(Shown::List(vec!["slack=https://hooks.slack.com/…".to_owned()]))
    );
    assert!(!format!("{:?}", resolved.settings).contains("geheim"));
    for wrong in ["notify-webhook = \"hooks.slack.com/geheim\"", "notify-webhook = [\"slack=geheim\", \"\"]"]
    {
        let words = read(wrong).unwrap_err().to_string();
        assert!(words.contains("notify-webhook") && !words.contains("geheim"), "{words}");
    }
}
