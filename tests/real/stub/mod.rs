//! A stub of the Messages API on loopback, scripted by the test.
//!
//! Theory of operation: one thread accepts, one thread serves each connection. A request for a message is recorded, then
//! the first rule of the script that matches it and still has answers left is used; without one the answer is the text
//! [`UNSCRIPTED`], because the CLI also asks on its own account (a title, a summary) and a test should not have to know
//! when. `HEAD /` and `count_tokens` are always answered and not recorded.
//!
//! Pitfall: the CLI retries, so a rule meant for one failure usually wants [`Stub::always`] or a count.

mod http;
mod reply;
mod request;

use std::io::{self, BufReader, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

pub(crate) use reply::Reply;
pub(crate) use request::Request;

use http::{EventStream, RawRequest};
use reply::{Kind, Message};

/// The text of an answer that no rule asked for.
pub(crate) const UNSCRIPTED: &str = "Nothing in the script asked for this.";

type Predicate = Box<dyn Fn(&Request) -> bool + Send>;

struct Rule {
    applies: Predicate,
    reply: Reply,
    left: u32,
}

#[derive(Default)]
struct State {
    rules: Vec<Rule>,
    requests: Vec<Request>,
    connections: Vec<TcpStream>,
    answered: u64,
    spent: (u64, u64),
    ending: bool,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait_for_end(&self) {
        let guard = self.lock();
        drop(self.changed.wait_while(guard, |state| !state.ending));
    }
}

/// The running stub. Dropped, it cuts its connections and joins its threads.
pub(crate) struct Stub {
    address: SocketAddr,
    shared: Arc<Shared>,
    acceptor: Option<JoinHandle<()>>,
}

impl Stub {
    /// Listens on a free port of the loopback interface.
    pub(crate) fn start() -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("loopback has a free port");
        let address = listener.local_addr().expect("a bound socket has an address");
        let shared = Arc::new(Shared::default());
        let for_acceptor = Arc::clone(&shared);
        let acceptor = std::thread::spawn(move || accept(&listener, &for_acceptor));
        Self { address, shared, acceptor: Some(acceptor) }
    }

    /// What `ANTHROPIC_BASE_URL` has to be.
    pub(crate) fn base_url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Answers the next `count` requests that fit `applies`.
    pub(crate) fn when(
        &self,
        count: u32,
        applies: impl Fn(&Request) -> bool + Send + 'static,
        reply: Reply,
    ) -> &Self {
        self.shared.lock().rules.push(Rule { applies: Box::new(applies), reply, left: count });
        self
    }

    /// Answers one request, whatever it asks. Several calls make a queue.
    pub(crate) fn next(&self, reply: Reply) -> &Self {
        self.when(1, |_| true, reply)
    }

    /// Answers every request that no earlier rule answers.
    pub(crate) fn always(&self, reply: Reply) -> &Self {
        self.when(u32::MAX, |_| true, reply)
    }

    /// The requests for messages so far.
    pub(crate) fn requests(&self) -> Vec<Request> {
        self.shared.lock().requests.clone()
    }

    /// Input and output tokens of all whole messages given so far.
    pub(crate) fn spent(&self) -> (u64, u64) {
        self.shared.lock().spent
    }

    /// Waits until a request fits, and returns it.
    pub(crate) fn wait_for_request(&self, within: Duration, fits: impl Fn(&Request) -> bool) -> Request {
        let deadline = Instant::now() + within;
        let mut state = self.shared.lock();
        loop {
            if let Some(found) = state.requests.iter().find(|request| fits(request)) {
                return found.clone();
            }
            let left = deadline.saturating_duration_since(Instant::now());
            assert!(!left.is_zero(), "no such request within {within:?}; {} came", state.requests.len());
            state = self.shared.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Stops listening, so that further connections are refused; open ones are cut.
    pub(crate) fn refuse(&mut self) {
        let Some(acceptor) = self.acceptor.take() else { return };
        {
            let mut state = self.shared.lock();
            state.ending = true;
            for connection in &state.connections {
                // Fails when the client has gone already, which is as good.
                connection.shutdown(Shutdown::Both).ok();
            }
        }
        self.shared.changed.notify_all();
        // Wakes the acceptor, which then sees that it is over.
        TcpStream::connect(self.address).ok();
        acceptor.join().expect("the acceptor does not panic");
    }
}

impl Drop for Stub {
    fn drop(&mut self) {
        self.refuse();
    }
}

fn accept(listener: &TcpListener, shared: &Arc<Shared>) {
    let mut servers = Vec::new();
    for connection in listener.incoming() {
        let Ok(connection) = connection else { continue };
        {
            let mut state = shared.lock();
            if state.ending {
                break;
            }
            let Ok(copy) = connection.try_clone() else { continue };
            state.connections.push(copy);
        }
        let shared = Arc::clone(shared);
        servers.push(std::thread::spawn(move || {
            // An error is a client that went away in the middle, which the scripts do provoke.
            serve(&connection, &shared).ok();
            // The copy kept for cutting holds the socket open, so closing needs to be said.
            connection.shutdown(Shutdown::Both).ok();
        }));
    }
    for server in servers {
        server.join().expect("a server thread does not panic");
    }
}

fn serve(connection: &TcpStream, shared: &Shared) -> io::Result<()> {
    let mut reader = BufReader::new(connection);
    let mut writer = connection;
    while let Some(raw) = http::read_request(&mut reader, &mut writer)? {
        if !answer(&raw, &mut writer, shared)? || !raw.keeps_alive() {
            break;
        }
    }
    Ok(())
}

/// Answers one request; `false` when the connection has to be closed.
fn answer(raw: &RawRequest, writer: &mut impl Write, shared: &Shared) -> io::Result<bool> {
    let path = raw.target.split('?').next().unwrap_or_default();
    match (raw.method.as_str(), path) {
        ("HEAD", _) => http::send_head(writer).map(|()| true),
        ("POST", "/v1/messages/count_tokens") => {
            http::send(writer, 200, &[], json!({"input_tokens": 100}).to_string().as_bytes()).map(|()| true)
        }
        ("POST", "/v1/messages") => {
            let body = serde_json::from_slice(&raw.body)?;
            let request = Request { headers: raw.headers.clone(), body };
            let (reply, number) = choose(shared, &request);
            give(&reply, number, &request, writer, shared)
        }
        (method, _) => {
            let message = format!("the stub does not know {method} {path}");
            http::send(writer, 404, &[], error_body("not_found_error", &message).as_bytes()).map(|()| true)
        }
    }
}

fn choose(shared: &Shared, request: &Request) -> (Reply, u64) {
    let mut state = shared.lock();
    let rule = state.rules.iter_mut().find(|rule| rule.left > 0 && (rule.applies)(request));
    let reply = rule.map_or_else(
        || Reply::text(UNSCRIPTED),
        |rule| {
            rule.left -= 1;
            rule.reply.clone()
        },
    );
    if let Kind::Message(message) = &reply.kind {
        state.spent.0 += message.input_tokens;
        state.spent.1 += message.output_tokens;
    }
    state.requests.push(request.clone());
    state.answered += 1;
    shared.changed.notify_all();
    (reply, state.answered)
}

fn error_body(kind: &str, message: &str) -> String {
    json!({"type": "error", "error": {"type": kind, "message": message}}).to_string()
}

fn give(
    reply: &Reply,
    number: u64,
    request: &Request,
    writer: &mut impl Write,
    shared: &Shared,
) -> io::Result<bool> {
    let mut headers = vec![("request-id".to_owned(), format!("req_stub_{number}"))];
    headers.extend(reply.headers.iter().cloned());
    let part = || Message {
        content: vec![json!({"type": "text", "text": "A beginning"})],
        stop_reason: "end_turn".to_owned(),
        input_tokens: 100,
        output_tokens: 3,
    };
    match &reply.kind {
        Kind::Message(message) if request.body["stream"] == true => {
            let mut stream = EventStream::start(writer, &headers)?;
            message.begin(number, request.model(), &mut stream)?;
            message.end(&mut stream)?;
            stream.finish()?;
            Ok(true)
        }
        Kind::Message(message) => {
            let body = message.whole(number, request.model()).to_string();
            http::send(writer, 200, &headers, body.as_bytes())?;
            Ok(true)
        }
        Kind::Error { status, kind, message } => {
            http::send(writer, *status, &headers, error_body(kind, message).as_bytes())?;
            Ok(true)
        }
        Kind::StreamError { kind, message } => {
            let mut stream = EventStream::start(writer, &headers)?;
            part().begin(number, request.model(), &mut stream)?;
            stream.event("error", &json!({"type": "error", "error": {"type": kind, "message": message}}))?;
            stream.finish()?;
            Ok(true)
        }
        Kind::CutAfterBlock => {
            part().begin(number, request.model(), &mut EventStream::start(writer, &headers)?)?;
            Ok(false)
        }
        Kind::SilentAfterHeaders => {
            let _open = EventStream::start(writer, &headers)?;
            shared.wait_for_end();
            Ok(false)
        }
        Kind::NeverAnswered => {
            shared.wait_for_end();
            Ok(false)
        }
    }
}

impl Message {
    fn blocks(&self, number: u64) -> impl Iterator<Item = Value> {
        self.content.iter().enumerate().map(move |(index, block)| {
            let mut block = block.clone();
            if block["type"] == "tool_use" {
                block["id"] = json!(format!("toolu_stub_{number}_{index}"));
            }
            block
        })
    }

    fn whole(&self, number: u64, model: &str) -> Value {
        json!({
            "id": format!("msg_stub_{number}"), "type": "message", "role": "assistant", "model": model,
            "content": self.blocks(number).collect::<Vec<_>>(),
            "stop_reason": self.stop_reason, "stop_sequence": null, "usage": self.usage(self.output_tokens),
        })
    }

    fn usage(&self, output_tokens: u64) -> Value {
        json!({
            "input_tokens": self.input_tokens, "output_tokens": output_tokens,
            "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0,
        })
    }

    /// Everything up to the end of the last block.
    fn begin<W: Write>(&self, number: u64, model: &str, stream: &mut EventStream<'_, W>) -> io::Result<()> {
        let mut message = self.whole(number, model);
        message["content"] = json!([]);
        message["stop_reason"] = Value::Null;
        message["usage"] = self.usage(1);
        stream.event("message_start", &json!({"type": "message_start", "message": message}))?;
        for (index, block) in self.blocks(number).enumerate() {
            let (empty, delta) = match block["type"].as_str() {
                Some("tool_use") => {
                    let delta =
                        json!({"type": "input_json_delta", "partial_json": block["input"].to_string()});
                    let mut empty = block;
                    empty["input"] = json!({});
                    (empty, delta)
                }
                _ => (
                    json!({"type": "text", "text": ""}),
                    json!({"type": "text_delta", "text": block["text"]}),
                ),
            };
            let start = json!({"type": "content_block_start", "index": index, "content_block": empty});
            stream.event("content_block_start", &start)?;
            let delta = json!({"type": "content_block_delta", "index": index, "delta": delta});
            stream.event("content_block_delta", &delta)?;
            stream.event("content_block_stop", &json!({"type": "content_block_stop", "index": index}))?;
        }
        Ok(())
    }

    fn end<W: Write>(&self, stream: &mut EventStream<'_, W>) -> io::Result<()> {
        let delta = json!({
            "type": "message_delta", "delta": {"stop_reason": self.stop_reason, "stop_sequence": null},
            "usage": {"output_tokens": self.output_tokens},
        });
        stream.event("message_delta", &delta)?;
        stream.event("message_stop", &json!({"type": "message_stop"}))
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use super::*;

    /// Sends the bytes of one request that says it is the last, and gives the whole answer.
    fn exchange(stub: &Stub, request: &str) -> String {
        let mut connection = TcpStream::connect(stub.address).unwrap();
        connection.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        connection.read_to_string(&mut answer).unwrap();
        answer
    }

    const CHUNKED: &str = "POST /v1/messages?beta=true HTTP/1.1\r\nConnection: close\r\n\
        Transfer-Encoding: chunked\r\n\r\n9\r\n{\"stream\"\r\nA;x=y\r\n:false,\"a\"\r\n3\r\n:1}\r\n0\r\n\r\n";

    #[test]
    fn a_request_in_chunks_is_recorded_and_answered_whole() {
        let stub = Stub::start();
        stub.next(Reply::text("Hello").usage(5, 7).header("x-extra", "yes"));
        let answer = exchange(&stub, CHUNKED);
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        assert!(head.starts_with("HTTP/1.1 200 OK\r\n") && head.contains("\r\nx-extra: yes"), "{head}");
        let body: Value = serde_json::from_str(body).unwrap();
        assert_eq!(body["content"][0]["text"], "Hello");
        assert_eq!(body["usage"]["output_tokens"], 7);
        assert_eq!(stub.requests()[0].body, json!({"stream": false, "a": 1}));
    }

    #[test]
    fn an_event_stream_ends_with_its_stop_event() {
        let stub = Stub::start();
        let body = r#"{"stream":true,"model":"m"}"#;
        let request = format!(
            "POST /v1/messages HTTP/1.1\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        stub.next(Reply::text("Hello")).next(Reply::cut());
        let answer = exchange(&stub, &request);
        assert!(answer.contains("event: message_start\n"), "{answer}");
        assert!(answer.contains(r#""stop_reason":"end_turn""#), "{answer}");
        assert!(answer.ends_with("data: {\"type\":\"message_stop\"}\n\n\r\n0\r\n\r\n"), "{answer}");
        let answer = exchange(&stub, &request);
        assert!(answer.contains("content_block_stop") && !answer.contains("message_stop"), "{answer}");
        assert!(!answer.ends_with("0\r\n\r\n"), "a cut stream has no last chunk");
    }

    #[test]
    fn what_is_not_a_message_is_answered_and_not_recorded() {
        let stub = Stub::start();
        for (request, expected) in [
            ("HEAD / HTTP/1.1\r\nConnection: close\r\n\r\n", "HTTP/1.1 200 OK"),
            ("POST /v1/messages/count_tokens HTTP/1.1\r\nConnection: close\r\n\r\n", "input_tokens"),
            ("GET /v1/elsewhere HTTP/1.1\r\nConnection: close\r\n\r\n", "HTTP/1.1 404 Not Found"),
        ] {
            let answer = exchange(&stub, request);
            assert!(answer.contains(expected), "{request}: {answer}");
        }
        assert_eq!(stub.requests().len(), 0);
    }

    #[test]
    fn rules_are_used_in_order_as_often_as_they_say() {
        let stub = Stub::start();
        stub.when(1, |request| request.model() == "other", Reply::text("other"))
            .when(2, |_| true, Reply::error(529, "overloaded_error", "Overloaded"))
            .next(Reply::text("last"));
        let answers: Vec<String> = (0..4).map(|_| exchange(&stub, CHUNKED)).collect();
        for (answer, expected) in answers.iter().zip(["529", "529", "\"last\"", UNSCRIPTED]) {
            assert!(answer.contains(expected), "{answer}");
        }
    }

    #[test]
    fn a_refusing_stub_has_no_listener() {
        let mut stub = Stub::start();
        stub.refuse();
        assert!(TcpStream::connect(stub.address).is_err());
    }
}
