//! Just enough HTTP/1.1 for one client: keep-alive, request bodies by `Content-Length` or in chunks, and answers whole or
//! in chunks.

use std::fmt::Write as _;
use std::io::{self, BufRead, Read, Write};

/// Longest request body that is read. A request of the CLI is about 100 KiB; the bound keeps a mistake visible.
const BODY_LIMIT: u64 = 64 << 20;

/// A request as it came off the wire. Header names are lower-case.
pub(super) struct RawRequest {
    pub(super) method: String,
    pub(super) target: String,
    pub(super) headers: Vec<(String, String)>,
    pub(super) body: Vec<u8>,
}

impl RawRequest {
    fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(n, _)| n == name).map(|(_, v)| v.as_str())
    }

    /// Whether the client will send another request on this connection.
    pub(super) fn keeps_alive(&self) -> bool {
        !self.header("connection").is_some_and(|v| v.eq_ignore_ascii_case("close"))
    }
}

fn invalid(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

fn line(reader: &mut impl BufRead) -> io::Result<Option<String>> {
    let mut bytes = Vec::new();
    if reader.take(64 << 10).read_until(b'\n', &mut bytes)? == 0 {
        return Ok(None);
    }
    let text = String::from_utf8(bytes).map_err(|_| invalid("header is not UTF-8"))?;
    Ok(Some(text.trim_end_matches(['\r', '\n']).to_owned()))
}

/// Reads the next request; `None` when the client closed the connection between two.
pub(super) fn read_request(
    reader: &mut impl BufRead,
    writer: &mut impl Write,
) -> io::Result<Option<RawRequest>> {
    let Some(first) = line(reader)? else { return Ok(None) };
    let mut words = first.split(' ');
    let (Some(method), Some(target), Some("HTTP/1.1")) = (words.next(), words.next(), words.next()) else {
        return Err(invalid("not an HTTP/1.1 request line"));
    };
    let (method, target) = (method.to_owned(), target.to_owned());
    let mut headers = Vec::new();
    loop {
        let header = line(reader)?.ok_or_else(|| invalid("connection closed inside the headers"))?;
        if header.is_empty() {
            break;
        }
        let (name, value) = header.split_once(':').ok_or_else(|| invalid("header without a colon"))?;
        headers.push((name.trim().to_ascii_lowercase(), value.trim().to_owned()));
    }
    let mut request = RawRequest { method, target, headers, body: Vec::new() };
    if request.header("expect").is_some_and(|v| v.eq_ignore_ascii_case("100-continue")) {
        writer.write_all(b"HTTP/1.1 100 Continue\r\n\r\n")?;
    }
    request.body =
        if request.header("transfer-encoding").is_some_and(|v| v.to_ascii_lowercase().contains("chunked")) {
            read_chunks(reader)?
        } else {
            let length = request.header("content-length").map_or(Ok(0), str::parse::<u64>);
            read_exactly(reader, length.map_err(|_| invalid("content-length is not a number"))?)?
        };
    Ok(Some(request))
}

fn read_exactly(reader: &mut impl BufRead, length: u64) -> io::Result<Vec<u8>> {
    if length > BODY_LIMIT {
        return Err(invalid("request body over the limit"));
    }
    let mut body = Vec::new();
    if reader.take(length).read_to_end(&mut body)? as u64 != length {
        return Err(invalid("connection closed inside the body"));
    }
    Ok(body)
}

fn read_chunks(reader: &mut impl BufRead) -> io::Result<Vec<u8>> {
    let mut body = Vec::new();
    loop {
        let size = line(reader)?.ok_or_else(|| invalid("connection closed between chunks"))?;
        let digits = size.split(';').next().unwrap_or_default().trim();
        let size = u64::from_str_radix(digits, 16).map_err(|_| invalid("chunk size is not hexadecimal"))?;
        body.extend(read_exactly(reader, size)?);
        if body.len() as u64 > BODY_LIMIT {
            return Err(invalid("request body over the limit"));
        }
        // After a chunk comes an empty line; after the last one come trailers and an empty line.
        while line(reader)?.is_some_and(|trailer| size == 0 && !trailer.is_empty()) {}
        if size == 0 {
            return Ok(body);
        }
    }
}

fn head(status: u16, headers: &[(String, String)], framing: &str) -> String {
    let mut head = format!("HTTP/1.1 {status} {}\r\n{framing}\r\n", reason(status));
    for (name, value) in headers {
        write!(head, "{name}: {value}\r\n").expect("writing to a String cannot fail");
    }
    head.push_str("\r\n");
    head
}

fn reason(status: u16) -> &'static str {
    match status {
        200 => "OK",
        400 => "Bad Request",
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "Not Found",
        413 => "Payload Too Large",
        429 => "Too Many Requests",
        500 => "Internal Server Error",
        _ => "Status",
    }
}

/// Sends a whole answer.
pub(super) fn send(
    writer: &mut impl Write,
    status: u16,
    headers: &[(String, String)],
    body: &[u8],
) -> io::Result<()> {
    let framing = format!("content-type: application/json\r\ncontent-length: {}", body.len());
    writer.write_all(head(status, headers, &framing).as_bytes())?;
    writer.write_all(body)?;
    writer.flush()
}

/// Sends the head of an answer to `HEAD`, which has no body.
pub(super) fn send_head(writer: &mut impl Write) -> io::Result<()> {
    writer.write_all(head(200, &[], "content-length: 0").as_bytes())?;
    writer.flush()
}

/// An answer of server-sent events, in progress. Dropped before [`EventStream::finish`], it is a cut connection.
pub(super) struct EventStream<'w, W: Write> {
    writer: &'w mut W,
}

impl<'w, W: Write> EventStream<'w, W> {
    pub(super) fn start(writer: &'w mut W, headers: &[(String, String)]) -> io::Result<Self> {
        let framing = "content-type: text/event-stream; charset=utf-8\r\ntransfer-encoding: chunked";
        writer.write_all(head(200, headers, framing).as_bytes())?;
        writer.flush()?;
        Ok(Self { writer })
    }

    pub(super) fn event(&mut self, name: &str, data: &serde_json::Value) -> io::Result<()> {
        let event = format!("event: {name}\ndata: {data}\n\n");
        write!(self.writer, "{:x}\r\n{event}\r\n", event.len())?;
        self.writer.flush()
    }

    pub(super) fn finish(self) -> io::Result<()> {
        self.writer.write_all(b"0\r\n\r\n")?;
        self.writer.flush()
    }
}
