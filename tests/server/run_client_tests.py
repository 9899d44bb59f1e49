#!/usr/bin/env python3
"""Starts `quire serve` and runs the official openai client against it.

    run_client_tests.py path/to/quire [--starter MODEL.gguf]

On builtin:tiny it runs openai_client_test.py; with a starter model it also asks for an English sentence. A signal must
end the server cleanly.
"""
import argparse
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
KEY = "test-key"


class Server:
    """One `quire serve` process on a free port, with folders of its own."""

    def __init__(self, quire, model, *options):
        self.folder = tempfile.TemporaryDirectory()
        environment = dict(os.environ, QUIRE_API_KEY=KEY)
        for name in ("CONFIG", "STATE", "CACHE"):
            environment[f"XDG_{name}_HOME"] = self.folder.name
        self.process = subprocess.Popen([quire, "serve", "--model", model, "--port", "0", *options],
                                        stderr=subprocess.PIPE, text=True, env=environment)
        self.url = None
        for line in self.process.stderr:
            found = re.search(r"listening on (http://\S+)", line)
            if found:
                self.url = found.group(1)
                break
        if self.url is None:
            raise SystemExit(f"quire serve ended with {self.process.wait()} before it listened")

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.process.send_signal(signal.SIGTERM)
        try:
            code = self.process.wait(timeout=30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise SystemExit("quire serve did not stop after SIGTERM")
        self.folder.cleanup()
        if exception == (None, None, None) and code != 0:
            raise SystemExit(f"quire serve exited with {code} after SIGTERM")


def ask_starter(url):
    import openai
    client = openai.OpenAI(base_url=url, api_key=KEY)
    answer = client.chat.completions.create(
        model="starter", temperature=0, max_tokens=60,
        messages=[{"role": "user", "content": "What is the capital of France? Answer in one sentence."}])
    text = answer.choices[0].message.content
    print("starter model:", text)
    if "Paris" not in text:
        raise SystemExit("the starter model's answer does not name Paris")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("quire")
    parser.add_argument("--starter")
    arguments = parser.parse_args()
    with Server(arguments.quire, "builtin:tiny") as server:
        subprocess.run([sys.executable, HERE / "openai_client_test.py", server.url, KEY], check=True)
    if arguments.starter:
        with Server(arguments.quire, arguments.starter) as server:
            ask_starter(server.url)


if __name__ == "__main__":
    main()
