//! The lines of the stream and the transcript entries that go with them.

use std::sync::atomic::Ordering;

use serde_json::{Value, json};

use super::given::Given;
use super::{Play, Played, Stop};
use crate::control::Mode;
use crate::script::Arg;
use crate::state::now_ms;
use crate::transcript::{merge, timestamp};
use crate::wire;

impl Play {
    /// The steps that write stream lines and the matching transcript entries.
    pub(super) fn speak(&mut self, word: &str, a: &Given<'_>) -> Played {
        match word {
            "init" => {
                self.begin_transcript()?;
                let mode = self.args.value("--permission-mode").unwrap_or("default").to_owned();
                let mut line = wire::init(&self.session, &self.cwd.to_string_lossy(), &mode);
                merge(&mut line, &a.json());
                self.out.line(&line);
                Ok(())
            }
            "text" | "thinking" => {
                let text = a.text(0)?;
                let stop = if word == "text" && a.args.len() == 1 { Some("end_turn") } else { None };
                if word == "text" {
                    self.turn.last_text.clone_from(&text);
                }
                let block = if word == "text" {
                    json!({"type": "text", "text": text})
                } else {
                    json!({"type": "thinking", "thinking": text, "signature": "c2lnbmVk"})
                };
                self.assistant(&block, stop)
            }
            "tool" => {
                self.tool_start(a.word(0)?, &a.json())?;
                self.tool_end(&a.last_text().unwrap_or_else(|| "ok".to_owned()), a.says("error"))
            }
            "tool_start" => self.tool_start(a.word(0)?, &a.json()),
            "tool_end" => self.tool_end(&a.last_text().unwrap_or_else(|| "ok".to_owned()), a.says("error")),
            "agent" => self.agent(&a.text(0)?, a.says("failed")),
            "ask_hook" => {
                let id = format!("toolu_{}", uuid::Uuid::new_v4().simple());
                self.hook(a.word(0)?, &a.json(), &id).map(drop)
            }
            // So many questions one after the other, the commands in turns; what each answer took is recorded.
            "ask_hooks" => self.ask_hooks(a.number(0)?, &a.json()),
            "ask_permission" => self.ask_permission(a.word(0)?, &a.json()).map(drop),
            "report" => {
                let mut report = wire::report();
                merge(&mut report, &a.json());
                self.turn.report = Some(report);
                Ok(())
            }
            "spend" => {
                let given = a.json();
                let count = |key: &str, default| given[key].as_u64().unwrap_or(default);
                let cost = given["cost"].as_f64().unwrap_or(0.01);
                self.turn.spend = Some((cost, count("input", 100), count("output", 50)));
                Ok(())
            }
            "result" => self.result(&a.json()),
            "turn" => {
                let text = a.last_text().unwrap_or_else(|| "Did the work.".to_owned());
                self.speak("init", &Given { args: &[] })?;
                self.speak("text", &Given { args: &[Arg::Text(text.into_bytes())] })?;
                if self.turn.report.is_none() && self.args.has("--json-schema") {
                    self.turn.report = Some(wire::report());
                }
                self.result(&a.json())
            }
            "api_error" => {
                let status = a.number(0)?;
                let code = if a.args.len() > 2 { Some(a.text(2)?) } else { None };
                self.api_error(status, &a.text(1)?, code.as_deref(), &a.json())
            }
            "retry" => {
                let (times, status) = (a.number(0)?, a.number(1)?);
                for attempt in 1..=times {
                    self.out.line(&wire::api_retry(&self.session, attempt, status));
                }
                Ok(())
            }
            "rate_limit" => {
                let at = a.moment(1)?;
                let window = a.words().nth(2).unwrap_or("five_hour");
                self.out.line(&wire::rate_limit(&self.session, a.word(0)?, at, window));
                Ok(())
            }
            "usage_limit" => {
                let at = a.moment(0)?;
                let window = a.words().nth(1).unwrap_or("five_hour");
                self.out.line(&wire::rate_limit(&self.session, "rejected", at, window));
                let name = if window == "five_hour" { "5-hour" } else { "weekly" };
                let text = format!("You've hit your {name} limit · resets {} (UTC)", clock(at));
                self.api_error(429, &text, Some("usage_limit_reached"), &Value::Null)
            }
            "transcript_turn" => {
                self.begin_transcript()?;
                let text = a.last_text().unwrap_or_else(|| "Did the work.".to_owned());
                let message = wire::assistant(&json!({"type": "text", "text": text}), Some("end_turn"), 50);
                self.record("assistant", &json!({"message": message}))
            }
            "append_transcript" => {
                let transcript =
                    self.transcript.as_mut().ok_or_else(|| "there is no transcript".to_owned())?;
                match a.args.first() {
                    Some(Arg::Json(line)) => transcript.line(line)?,
                    Some(Arg::Text(bytes)) => transcript.raw(bytes)?,
                    _ => return Err("wants a JSON line or a text".to_owned().into()),
                }
                Ok(())
            }
            "truncate_transcript" => {
                let bytes = a.number(0)?;
                Ok(self.transcript.as_mut().map_or(Ok(()), |t| t.truncate(bytes))?)
            }
            other => Err(format!("`{other}` is not played").into()),
        }
    }

    pub(super) fn record(&mut self, kind: &str, fields: &Value) -> Played {
        Ok(self.transcript.as_mut().map_or(Ok(()), |t| t.entry(kind, fields))?)
    }

    /// The entries before the first message of a turn, once a turn.
    pub(super) fn begin_transcript(&mut self) -> Played {
        if std::mem::replace(&mut self.turn.recorded, true) {
            return Ok(());
        }
        let prompt = self.turn.prompt.clone();
        if let Some(transcript) = self.transcript.as_mut() {
            transcript
                .line(&json!({"type": "queue-operation", "operation": "enqueue", "timestamp": timestamp(),
                "sessionId": self.session, "content": prompt}))?;
            transcript
                .line(&json!({"type": "queue-operation", "operation": "dequeue", "timestamp": timestamp(),
                "sessionId": self.session}))?;
        }
        self.record("user", &json!({"message": {"role": "user", "content": prompt}}))
    }

    pub(super) fn assistant(&mut self, block: &Value, stop_reason: Option<&str>) -> Played {
        self.begin_transcript()?;
        self.turn.steps += 1;
        let mut message = wire::assistant(block, None, 50);
        self.out.line(&wire::message("assistant", &self.session, &message, None));
        message["stop_reason"] = stop_reason.into();
        self.record("assistant", &json!({"message": message}))
    }

    pub(super) fn tool_start(&mut self, name: &str, input: &Value) -> Played {
        let id = format!("toolu_{}", uuid::Uuid::new_v4().simple());
        let block = json!({"type": "tool_use", "id": id, "name": name, "input": input});
        self.assistant(&block, Some("tool_use"))?;
        let refused = self.hook(name, input, &id)?;
        self.turn.open_tool = Some((id, refused.is_some()));
        if let Some(reason) = refused {
            return self.tool_end(&reason, true);
        }
        self.traps.in_tool.store(true, Ordering::SeqCst);
        Ok(())
    }

    pub(super) fn tool_end(&mut self, text: &str, is_error: bool) -> Played {
        self.traps.in_tool.store(false, Ordering::SeqCst);
        // A refused call has its answer already.
        let Some((id, refused)) = self.turn.open_tool.take() else { return Ok(()) };
        let message = wire::tool_result(&id, text, is_error);
        let mut line = wire::message("user", &self.session, &message, None);
        line["tool_use_result"] = text.into();
        if refused {
            line["tool_result_meta"] = json!([{"tool_use_id": id, "permission_decision":
                {"decision": "deny", "source": "hook", "reason_type": "hook"}}]);
        }
        self.out.line(&line);
        self.record("user", &json!({"message": message, "toolUseResult": text}))
    }

    /// Asks the driver's `PreToolUse` hook, when it has one; the reason when it said no.
    pub(super) fn hook(&mut self, name: &str, input: &Value, id: &str) -> Result<Option<String>, Stop> {
        let fields = json!({"tool_name": name, "tool_input": input, "tool_use_id": id});
        for callback in self.hooks.callbacks("PreToolUse", Some(name)) {
            let input_of_hook = self.hook_input("PreToolUse", &fields);
            let request = json!({"subtype": "hook_callback", "callback_id": callback, "tool_use_id": id,
                "input": input_of_hook});
            let answer = self.ask(&request, "hook_answers")?;
            let decision = &answer["hookSpecificOutput"];
            match decision["permissionDecision"].as_str() {
                Some("deny") => {
                    let reason = decision["permissionDecisionReason"].as_str().unwrap_or("no reason given");
                    return Ok(Some(reason.to_owned()));
                }
                Some("ask") => return self.ask_permission(name, input),
                _ => {}
            }
        }
        Ok(None)
    }

    fn ask_hooks(&mut self, count: u64, commands: &Value) -> Played {
        let commands = commands["commands"].as_array().cloned().unwrap_or_default();
        let callback = self
            .hooks
            .callbacks("PreToolUse", Some("Bash"))
            .pop()
            .ok_or_else(|| "nobody asked to be asked".to_owned())?;
        let mut micros = Vec::new();
        for (number, command) in (0..count).zip(commands.iter().cycle()) {
            let id = format!("toolu_{number}");
            let fields = json!({"tool_name": "Bash", "tool_input": {"command": command}, "tool_use_id": id});
            let request = json!({"subtype": "hook_callback", "callback_id": callback, "tool_use_id": id,
                "input": self.hook_input("PreToolUse", &fields)});
            let asked = std::time::Instant::now();
            self.ask(&request, "")?;
            micros.push(u64::try_from(asked.elapsed().as_micros()).unwrap_or(u64::MAX));
        }
        micros.sort_unstable();
        self.call.update(|record| record["answers_us"] = json!(micros));
        Ok(())
    }

    pub(super) fn hook_input(&self, event: &str, fields: &Value) -> Value {
        let path = self.transcript.as_ref().map(|t| t.path().to_string_lossy().into_owned());
        let mut input = json!({"hook_event_name": event, "session_id": self.session, "cwd": self.cwd.to_string_lossy(),
            "transcript_path": path, "permission_mode": self.args.value("--permission-mode").unwrap_or("default")});
        merge(&mut input, fields);
        input
    }

    /// What the CLI does where a person would be asked; the reason when the call may not run.
    pub(super) fn ask_permission(&mut self, name: &str, input: &Value) -> Result<Option<String>, Stop> {
        let id = format!("toolu_{}", uuid::Uuid::new_v4().simple());
        let reason = if self.args.value("--permission-prompt-tool") == Some("stdio")
            && self.mode == Mode::Control
        {
            let request = json!({"subtype": "can_use_tool", "tool_name": name, "input": input, "tool_use_id": id,
                "permission_suggestions": [], "blocked_path": null});
            let answer = self.ask(&request, "permission_answers")?;
            if answer["behavior"] == "allow" {
                return Ok(None);
            }
            answer["message"].as_str().unwrap_or("denied").to_owned()
        } else {
            let reason = format!("Permission to use {name} has been denied.");
            self.out
                .line(&json!({"type": "system", "subtype": "permission_denied", "session_id": self.session,
                "tool_name": name, "tool_use_id": id, "message": reason, "uuid": wire::uuid()}));
            reason
        };
        self.turn.denials.push(json!({"tool_name": name, "tool_use_id": id, "tool_input": input}));
        Ok(Some(reason))
    }

    /// A sub-agent from start to end.
    pub(super) fn agent(&mut self, task: &str, failed: bool) -> Played {
        self.tool_start(
            "Agent",
            &json!({"description": task, "prompt": task, "subagent_type": "general-purpose"}),
        )?;
        let Some((id, false)) = self.turn.open_tool.clone() else { return Ok(()) };
        let agent = format!("a{:07}", self.turn.agents.iter().sum::<u64>() + 1);
        let status = if failed { "failed" } else { "completed" };
        self.turn.agents[usize::from(failed)] += 1;
        self.out.line(&json!({"type": "system", "subtype": "task_started", "session_id": self.session,
            "task_id": agent, "tool_use_id": id, "task_type": "local_agent", "description": task, "uuid": wire::uuid()}));
        let message =
            wire::assistant(&json!({"type": "text", "text": format!("{task}: {status}")}), None, 20);
        self.out.line(&wire::message("assistant", &self.session, &message, Some(&id)));
        self.out.line(&json!({"type": "system", "subtype": "task_notification", "session_id": self.session,
            "task_id": agent, "tool_use_id": id, "status": status, "usage": {"total_tokens": 30}, "uuid": wire::uuid()}));
        self.tool_end(&format!("{task}: {status}"), failed)
    }

    pub(super) fn api_error(
        &mut self,
        status: u64,
        text: &str,
        code: Option<&str>,
        changes: &Value,
    ) -> Played {
        self.begin_transcript()?;
        let class = wire::error_class(status, Some(text));
        let mut message = wire::assistant(&json!({"type": "text", "text": text}), Some("stop_sequence"), 0);
        message["model"] = "<synthetic>".into();
        let mut line = wire::message("assistant", &self.session, &message, None);
        line["error"] = class.into();
        self.out.line(&line);
        let status = if status == 0 { Value::Null } else { status.into() };
        self.record(
            "assistant",
            &json!({"message": message, "isApiErrorMessage": true, "error": class,
            "apiErrorStatus": status, "errorDetails": text}),
        )?;
        text.clone_into(&mut self.turn.last_text);
        let mut error = json!({"is_error": true, "terminal_reason": "api_error", "stop_reason": "stop_sequence",
            "api_error_status": status, "api_error_type": status.as_u64().map(wire::error_type), "api_error": code});
        error.as_object_mut().expect("an object").retain(|_, v| !v.is_null());
        error["api_error_status"] = status;
        merge(&mut error, changes);
        self.turn.spend.get_or_insert((0.0, 0, 0));
        self.result(&error)
    }

    /// The result line: totals of the conversation, the addition of this turn, then the script's changes.
    pub(super) fn result(&mut self, changes: &Value) -> Played {
        self.begin_transcript()?;
        let (cost, input, output) = self.turn.spend.unwrap_or((0.01, 100, 50));
        let totals = self.call.state().totals(&self.session, |t| {
            t["cost"] = (t["cost"].as_f64().unwrap_or(0.0) + cost).into();
            let model = &t["models"][wire::MODEL];
            let sum = |key: &str, add| model[key].as_u64().unwrap_or(0) + add;
            t["models"] = json!({wire::MODEL: wire::model_usage(
                sum("inputTokens", input), sum("outputTokens", output), t["cost"].as_f64().unwrap_or(0.0))});
        })?;
        let stop = if self.turn.report.is_some() { "tool_use" } else { "end_turn" };
        let took = now_ms().saturating_sub(self.turn.started_ms);
        let mut line = json!({
            "type": "result", "subtype": "success", "is_error": false, "terminal_reason": "completed",
            "stop_reason": stop, "result": self.turn.last_text, "num_turns": self.turn.steps.max(1),
            "duration_ms": took, "duration_api_ms": took, "session_id": self.session, "uuid": wire::uuid(),
            "total_cost_usd": totals["cost"], "permission_denials": self.turn.denials,
            "usage": {"input_tokens": input, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0,
                "output_tokens": output, "service_tier": "standard"},
            "modelUsage": totals["models"],
            "model_usage_since_last_result": {wire::MODEL: wire::model_usage(input, output, cost)},
        });
        if let Some(report) = &self.turn.report {
            line["structured_output"] = report.clone();
        }
        let [completed, failed] = self.turn.agents;
        if completed + failed > 0 {
            line["subagent_stats"] = json!({"spawned": completed + failed, "completed": completed, "failed": failed,
                "killed": {"parent": 0, "user": 0, "system": 0}, "refused": {}});
        }
        merge(&mut line, changes);
        let callbacks =
            if line["is_error"] == false { self.hooks.callbacks("Stop", None) } else { Vec::new() };
        for callback in callbacks {
            let fields = json!({"stop_hook_active": false, "background_tasks": [],
                "last_assistant_message": self.turn.last_text});
            let input = self.hook_input("Stop", &fields);
            let request = json!({"subtype": "hook_callback", "callback_id": callback, "input": input});
            self.ask(&request, "hook_answers")?;
        }
        if let Some(transcript) = self.transcript.as_mut() {
            transcript.line(
                &json!({"type": "last-prompt", "sessionId": self.session, "lastPrompt": self.turn.prompt}),
            )?;
            transcript.line(
                &json!({"type": "cost-state", "sessionId": self.session, "totalCostUSD": totals["cost"],
                "modelUsage": totals["models"]}),
            )?;
        }
        self.code = i32::from(line["is_error"] != false);
        self.out.line(&line);
        self.call.push(
            "results",
            json!({"subtype": line["subtype"], "is_error": line["is_error"], "status": line["structured_output"]["status"],
                "spent": cost, "own_totals": changes.get("total_cost_usd").is_none()}),
        );
        self.call.event("result", &line["subtype"]);
        // Spent is spent: a second result of this turn adds nothing by itself.
        self.turn.spend = None;
        self.turn.report = None;
        Ok(())
    }
}

/// Time of day as the CLI writes it.
fn clock(epoch: u64) -> String {
    let (hour, minute) = (epoch / 3600 % 24, epoch / 60 % 60);
    let half = if hour < 12 { "am" } else { "pm" };
    format!("{}:{minute:02}{half}", (hour + 11) % 12 + 1)
}
