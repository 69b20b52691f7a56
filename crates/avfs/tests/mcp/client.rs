//! A client that speaks the protocol line by line.

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::sandbox::Sandbox;

/// How long an answer may take on a machine that has much to do.
pub const PATIENCE: Duration = Duration::from_secs(120);

pub const OLD: &str = "2025-06-18";
pub const NEW: &str = "2026-07-28";

pub struct Client {
    server: Child,
    input: Option<ChildStdin>,
    messages: Receiver<Value>,
    /// What came while something else was waited for.
    pub notifications: VecDeque<Value>,
    answers: Vec<Value>,
    version: String,
    capabilities: Value,
    /// What the user answers when the server asks; nothing: the request waits.
    pub decision: Option<Value>,
    /// The questions that came.
    pub questions: Vec<Value>,
    next: u64,
}

impl Client {
    /// Starts a server in the project of a sandbox, and shakes hands.
    pub fn start(sandbox: &Sandbox, words: &[&str]) -> Client {
        Client::start_with(sandbox, words, OLD, json!({}))
    }

    pub fn start_with(sandbox: &Sandbox, words: &[&str], version: &str, capabilities: Value) -> Client {
        let mut command = Command::new(assert_cmd::cargo::cargo_bin!("avfs"));
        command.env_clear().env("HOME", sandbox.path("home"));
        command.env("PATH", std::env::var_os("PATH").unwrap_or_default());
        command
            .current_dir(sandbox.path("project"))
            .arg("mcp")
            .args(words);
        let mut client = Client::of(command, version, capabilities);
        if version != NEW {
            let hello = json!({
                "protocolVersion": version,
                "capabilities": client.capabilities,
                "clientInfo": { "name": "test", "version": "1" },
            });
            let answer = client.request("initialize", hello);
            assert_eq!(answer["result"]["protocolVersion"], version, "{answer}");
            client.notify("notifications/initialized", json!({}));
        }
        client
    }

    fn of(mut command: Command, version: &str, capabilities: Value) -> Client {
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut server = command.spawn().unwrap();
        let output = BufReader::new(server.stdout.take().unwrap());
        let (sender, messages) = channel();
        std::thread::spawn(move || {
            for line in output.lines().map_while(Result::ok) {
                // Everything on standard output is a message.
                let message = serde_json::from_str(&line).expect("a message of the protocol");
                if sender.send(message).is_err() {
                    break;
                }
            }
        });
        Client {
            input: server.stdin.take(),
            server,
            messages,
            notifications: VecDeque::new(),
            answers: Vec::new(),
            version: version.to_owned(),
            capabilities,
            decision: None,
            questions: Vec::new(),
            next: 0,
        }
    }

    pub fn send(&mut self, message: &Value) {
        let input = self.input.as_mut().unwrap();
        writeln!(input, "{message}").unwrap();
        input.flush().unwrap();
    }

    pub fn notify(&mut self, method: &str, params: Value) {
        self.send(&json!({ "jsonrpc": "2.0", "method": method, "params": params }));
    }

    /// Sends a request without waiting for its answer.
    pub fn begin(&mut self, method: &str, mut params: Value) -> u64 {
        self.next += 1;
        if self.version == NEW {
            params["_meta"]["io.modelcontextprotocol/protocolVersion"] = json!(NEW);
            params["_meta"]["io.modelcontextprotocol/clientInfo"] = json!({ "name": "test", "version": "1" });
            params["_meta"]["io.modelcontextprotocol/clientCapabilities"] = self.capabilities.clone();
        }
        self.send(&json!({ "jsonrpc": "2.0", "id": self.next, "method": method, "params": params }));
        self.next
    }

    /// Waits for the answer to a request, and keeps what else comes.
    #[track_caller]
    pub fn answer(&mut self, id: u64) -> Value {
        let until = Instant::now() + PATIENCE;
        loop {
            if let Some(at) = self.answers.iter().position(|known| known["id"] == id) {
                return self.answers.remove(at);
            }
            let left = until.saturating_duration_since(Instant::now());
            let message = self.messages.recv_timeout(left).expect("an answer");
            match (message.get("method"), message.get("id")) {
                // Answers come in the order in which they are ready.
                (None, Some(_)) => self.answers.push(message),
                (Some(_), Some(_)) => self.asked(&message),
                (Some(_), None) => self.notifications.push_back(message),
                _ => {}
            }
        }
    }

    /// Waits until the server has asked the user something.
    #[track_caller]
    pub fn question(&mut self) -> Value {
        let until = Instant::now() + PATIENCE;
        while self.questions.is_empty() {
            let left = until.saturating_duration_since(Instant::now());
            let message = self.messages.recv_timeout(left).expect("a question");
            match (message.get("method"), message.get("id")) {
                (Some(_), Some(_)) => self.asked(&message),
                (Some(_), None) => self.notifications.push_back(message),
                _ => self.answers.push(message),
            }
        }
        self.questions.remove(0)
    }

    /// Waits until a notification of this kind has come.
    #[track_caller]
    pub fn notification(&mut self, method: &str) -> Value {
        let until = Instant::now() + PATIENCE;
        loop {
            if let Some(at) = self
                .notifications
                .iter()
                .position(|known| known["method"] == method)
            {
                return self.notifications.remove(at).unwrap();
            }
            let left = until.saturating_duration_since(Instant::now());
            let message = self.messages.recv_timeout(left).expect("a notification");
            if message.get("method").is_some() {
                self.notifications.push_back(message);
            } else {
                self.answers.push(message);
            }
        }
    }

    fn asked(&mut self, question: &Value) {
        self.questions.push(question["params"].clone());
        if let Some(result) = self.decision.clone() {
            self.send(&json!({ "jsonrpc": "2.0", "id": question["id"], "result": result }));
        }
    }

    #[track_caller]
    pub fn request(&mut self, method: &str, params: Value) -> Value {
        let id = self.begin(method, params);
        self.answer(id)
    }

    /// Calls a tool, whatever becomes of it.
    #[track_caller]
    pub fn call(&mut self, tool: &str, arguments: Value) -> Value {
        let answer = self.request("tools/call", json!({ "name": tool, "arguments": arguments }));
        assert!(answer.get("error").is_none(), "{answer}");
        answer["result"].clone()
    }

    /// Calls a tool that must do what it is asked for, and returns its structured answer.
    #[track_caller]
    pub fn good(&mut self, tool: &str, arguments: Value) -> Value {
        let result = self.call(tool, arguments);
        assert_ne!(result["isError"], true, "{result}");
        result["structuredContent"].clone()
    }

    /// Calls a tool that must refuse, and returns the code and the text.
    #[track_caller]
    pub fn bad(&mut self, tool: &str, arguments: Value) -> (String, String) {
        let result = self.call(tool, arguments);
        assert_eq!(result["isError"], true, "{result}");
        let code = result["_meta"]["agentvfs/error"]["code"]
            .as_str()
            .unwrap()
            .to_owned();
        (code, texts(&result).remove(0))
    }

    /// Runs a command that must exit with 0, and returns its output.
    #[track_caller]
    pub fn run(&mut self, line: &str) -> String {
        let answer = self.good("exec", json!({ "command": line }));
        assert_eq!(answer["success"], true, "{answer}");
        answer["stdout"].as_str().unwrap().to_owned()
    }

    /// Closes standard input and waits for the end.
    #[track_caller]
    pub fn end(mut self) -> i32 {
        drop(self.input.take());
        self.status()
    }

    pub fn process(&self) -> u32 {
        self.server.id()
    }

    #[track_caller]
    pub fn status(&mut self) -> i32 {
        let until = Instant::now() + PATIENCE;
        loop {
            if let Some(status) = self.server.try_wait().unwrap() {
                return status.code().unwrap_or(-1);
            }
            assert!(Instant::now() < until, "the server does not end");
            std::thread::yield_now();
        }
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        drop(self.input.take());
        let until = Instant::now() + PATIENCE;
        while Instant::now() < until && matches!(self.server.try_wait(), Ok(None)) {
            std::thread::yield_now();
        }
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

/// The blocks of text of a result.
pub fn texts(result: &Value) -> Vec<String> {
    let blocks = result["content"].as_array().unwrap();
    blocks
        .iter()
        .map(|block| block["text"].as_str().unwrap().to_owned())
        .collect()
}

/// A sandbox whose project has two files, one of which is hidden from tasks.
pub fn project() -> Sandbox {
    let sandbox = Sandbox::new();
    std::fs::write(sandbox.path("project/notes.txt"), "one\ntwo\nthree\n").unwrap();
    std::fs::write(sandbox.path("project/src/main.py"), "print('first')\n").unwrap();
    std::fs::write(sandbox.path("project/.env"), "TOKEN=1\n").unwrap();
    sandbox
}
