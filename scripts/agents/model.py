"""A model that says what a script says, at the interfaces of Anthropic, OpenAI and Google, on this machine.

Each request is answered by the step whose number is that of the tool results so far: a tool call, or the last words.
"""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Model:
    """Serves one script. `results` has what the agent has told of its tool calls, the newest request last."""

    def __init__(self, steps):
        self.steps = steps
        self.results = []
        model = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_):
                pass

            def do_HEAD(self):
                self.answer("application/json", b"")

            def do_GET(self):
                self.answer("application/json", b'{"data": [], "models": []}')

            def do_POST(self):
                length = int(self.headers.get("Content-Length", 0))
                body = json.loads(self.rfile.read(length) or b"{}")
                if "count_tokens" in self.path:
                    self.answer("application/json", b'{"input_tokens": 1}')
                elif ":countTokens" in self.path:
                    self.answer("application/json", b'{"totalTokens": 1}')
                elif self.path.startswith("/v1/messages"):
                    self.answer(*model.anthropic(body))
                elif self.path.startswith("/v1beta/models/"):
                    self.answer(*model.google(body, "streamGenerateContent" in self.path))
                else:
                    self.answer("text/event-stream", model.openai(body))

            def answer(self, kind, body):
                self.send_response(200)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def step(self, results):
        if len(results) >= len(self.results):
            self.results = results
        return self.steps[min(len(results), len(self.steps) - 1)]

    def anthropic(self, body):
        blocks = [
            block
            for message in body.get("messages", [])
            if isinstance(message["content"], list)
            for block in message["content"]
        ]
        results = [block["content"] for block in blocks if block.get("type") == "tool_result"]
        # Requests without tools are about titles and the like.
        step = self.step(results) if body.get("tools") else {"text": "a title"}
        if "tool" in step:
            block = {"type": "tool_use", "id": f"toolu_{len(results)}", "name": step["tool"], "input": {}}
            delta = {"type": "input_json_delta", "partial_json": json.dumps(step["input"])}
            whole, stop = {**block, "input": step["input"]}, "tool_use"
        else:
            block = {"type": "text", "text": ""}
            delta = {"type": "text_delta", "text": step["text"]}
            whole, stop = {**block, "text": step["text"]}, "end_turn"
        message = {
            "id": "msg_1", "type": "message", "role": "assistant", "model": body.get("model", "model"), "content": [],
            "stop_reason": None, "stop_sequence": None, "usage": {"input_tokens": 1, "output_tokens": 1},
        }
        if not body.get("stream"):
            return "application/json", json.dumps({**message, "content": [whole], "stop_reason": stop}).encode()
        ended = {"stop_reason": stop, "stop_sequence": None}
        return "text/event-stream", events(
            {"type": "message_start", "message": message},
            {"type": "content_block_start", "index": 0, "content_block": block},
            {"type": "content_block_delta", "index": 0, "delta": delta},
            {"type": "content_block_stop", "index": 0},
            {"type": "message_delta", "delta": ended, "usage": {"output_tokens": 1}},
            {"type": "message_stop"},
        )

    def openai(self, body):
        results = [item["output"] for item in body.get("input", []) if item.get("type", "").endswith("_output")]
        step = self.step(results)
        if "tool" in step:
            item = {
                "type": "function_call", "id": f"fc_{len(results)}", "call_id": f"call_{len(results)}",
                "name": step["tool"], "arguments": json.dumps(step["input"]),
            }
            if "namespace" in step:
                item["namespace"] = step["namespace"]
        else:
            text = {"type": "output_text", "text": step["text"], "annotations": []}
            item = {"type": "message", "id": "m1", "role": "assistant", "content": [text]}
        usage = {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2}
        return events(
            {"type": "response.created", "response": {"id": "r1"}},
            {"type": "response.output_item.done", "output_index": 0, "item": item},
            {"type": "response.completed", "response": {"id": "r1", "usage": usage}},
        )

    def google(self, body, is_stream):
        parts = [part for content in body.get("contents", []) for part in content.get("parts", [])]
        results = [part["functionResponse"]["response"] for part in parts if "functionResponse" in part]
        # Requests without tools are about which model to use and the like.
        step = self.step(results) if body.get("tools") else {"text": "{}"}
        if "tool" in step:
            part = {"functionCall": {"id": f"call_{len(results)}", "name": step["tool"], "args": step["input"]}}
        else:
            part = {"text": step["text"]}
        answer = json.dumps({
            "candidates": [{"index": 0, "content": {"role": "model", "parts": [part]}, "finishReason": "STOP"}],
            "usageMetadata": {"promptTokenCount": 1, "candidatesTokenCount": 1, "totalTokenCount": 2},
        })
        if is_stream:
            return "text/event-stream", f"data: {answer}\n\n".encode()
        return "application/json", answer.encode()


def events(*all_events):
    return "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in all_events).encode()
