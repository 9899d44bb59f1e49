#!/usr/bin/env python3
"""Runs the official openai client against a running server; exits non-zero on the first failure.

    openai_client_test.py http://127.0.0.1:8080/v1 KEY

Works with any model; builtin:tiny answers quickly.
"""
import re
import sys
import time
import urllib.request

import openai

URL, KEY = sys.argv[1].rstrip("/"), sys.argv[2]
MESSAGES = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Name a colour."}]
EXACTLY = {"ignore_eos": True}


def make_client(**options):
    return openai.OpenAI(**{"base_url": URL, "api_key": KEY, "max_retries": 0, "timeout": 120, **options})


client = make_client()


def chat(**options):
    return client.chat.completions.create(**{"model": "gpt-3.5-turbo", "messages": MESSAGES, "max_tokens": 24,
                                             **options})


def metric(name):
    root = URL.removesuffix("/v1")
    request = urllib.request.Request(f"{root}/metrics", headers={"Authorization": f"Bearer {KEY}"})
    text = urllib.request.urlopen(request, timeout=30).read().decode()
    return sum(float(value) for value in re.findall(rf"^{name}{{[^}}]*}} (\S+)$", text, re.MULTILINE))


def expect(error, call, status, code=None):
    try:
        call()
    except error as failure:
        assert failure.status_code == status, (failure.status_code, status)
        assert isinstance(failure.body, dict) and set(failure.body) >= {"message", "type", "param", "code"}, failure.body
        assert code is None or failure.code == code, failure.code
        return failure
    raise AssertionError(f"no {error.__name__}")


def test_list_and_retrieve():
    models = client.models.list().data
    assert len(models) == 1 and models[0].object == "model" and models[0].created > 0
    assert client.models.retrieve(models[0].id).id == models[0].id


def test_create():
    answer = chat(extra_body=EXACTLY)
    assert answer.object == "chat.completion" and answer.id.startswith("chatcmpl-")
    choice = answer.choices[0]
    assert choice.message.role == "assistant" and isinstance(choice.message.content, str)
    assert choice.finish_reason == "length" and choice.message.tool_calls is None
    assert answer.usage.completion_tokens == 24
    assert answer.usage.total_tokens == answer.usage.prompt_tokens + 24
    again = chat(extra_body=EXACTLY)
    assert again.usage.prompt_tokens_details.cached_tokens >= 0


def test_stream():
    whole = chat(temperature=0, extra_body=EXACTLY).choices[0].message.content
    chunks = list(chat(temperature=0, extra_body=EXACTLY, stream=True))
    assert chunks[0].choices[0].delta.role == "assistant" and chunks[0].choices[0].delta.content == ""
    assert len({chunk.id for chunk in chunks}) == 1
    assert [chunk.choices[0].finish_reason for chunk in chunks][-1] == "length"
    assert all(chunk.choices[0].finish_reason is None for chunk in chunks[:-1])
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks) == whole
    assert all(chunk.usage is None for chunk in chunks)


def test_include_usage():
    chunks = list(chat(stream=True, stream_options={"include_usage": True}, extra_body=EXACTLY))
    assert chunks[-1].choices == [] and chunks[-1].usage.completion_tokens == 24
    assert all(chunk.usage is None for chunk in chunks[:-1])


def test_completions():
    answer = client.completions.create(model="x", prompt="Once upon a time", max_tokens=8, extra_body=EXACTLY)
    assert answer.object == "text_completion" and answer.usage.completion_tokens == 8
    stream = client.completions.create(model="x", prompt=["Once"], max_tokens=8, stream=True, extra_body=EXACTLY)
    assert list(stream)[-1].choices[0].finish_reason == "length"
    default = client.completions.create(model="x", prompt=[1, 2, 3], extra_body=EXACTLY)
    assert default.usage.prompt_tokens == 3 and default.usage.completion_tokens == 16


def test_stop():
    text = chat(temperature=0, max_tokens=60, extra_body=EXACTLY).choices[0].message.content
    stop = text[len(text) // 2:len(text) // 2 + 2]
    answer = chat(temperature=0, max_tokens=60, stop=[stop], extra_body=EXACTLY)
    assert answer.choices[0].finish_reason == "stop"
    assert answer.choices[0].message.content == text[:text.find(stop)]
    streamed = chat(temperature=0, max_tokens=60, stop=stop, stream=True, extra_body=EXACTLY)
    assert "".join(chunk.choices[0].delta.content or "" for chunk in streamed) == text[:text.find(stop)]


def test_seed():
    answers = {chat(temperature=1, seed=1234567890123, extra_body=EXACTLY).choices[0].message.content for _ in range(3)}
    assert len(answers) == 1
    others = {chat(temperature=1, seed=seed, extra_body=EXACTLY).choices[0].message.content for seed in range(5)}
    assert len(others) > 1


def test_logprobs():
    answer = chat(logprobs=True, top_logprobs=3, max_tokens=4, extra_body=EXACTLY)
    content = answer.choices[0].logprobs.content
    assert len(content) == 4 and all(len(entry.top_logprobs) == 3 and entry.logprob <= 0 for entry in content)
    assert all(entry.top_logprobs[0].logprob >= entry.top_logprobs[2].logprob for entry in content)


def test_errors():
    expect(openai.BadRequestError, lambda: chat(n=2), 400)
    expect(openai.BadRequestError, lambda: chat(messages=[]), 400)
    expect(openai.BadRequestError, lambda: chat(extra_body={"top_k": 1e20}), 400)
    expect(openai.BadRequestError, lambda: chat(response_format={"type": "json_object"}), 400)
    picture = [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "http://127.0.0.1/x"}}]}]
    expect(openai.BadRequestError, lambda: chat(messages=picture), 400)
    long = [{"role": "user", "content": "word " * 200_000}]
    failure = expect(openai.BadRequestError, lambda: chat(messages=long), 400, "context_length_exceeded")
    assert failure.body["n_prompt_tokens"] > failure.body["n_ctx"] > 0
    expect(openai.AuthenticationError, lambda: make_client(api_key="wrong").models.list(), 401)
    foreign = make_client(default_headers={"Origin": "https://evil.example"})
    expect(openai.PermissionDeniedError, foreign.models.list, 403)
    expect(openai.NotFoundError, lambda: client.models.retrieve("no-such-model"), 404, "model_not_found")
    expect(openai.NotFoundError, lambda: client.get("/nowhere", cast_to=object), 404)
    expect(openai.APIStatusError, lambda: client.get("/chat/completions", cast_to=object), 405)
    typed = make_client(default_headers={"Content-Type": "text/plain"})
    expect(openai.APIStatusError, lambda: typed.chat.completions.create(model="x", messages=MESSAGES), 415)


def test_abort():
    stream = chat(max_tokens=100_000, stream=True, extra_body=EXACTLY)
    next(iter(stream))
    stream.close()
    for _ in range(200):
        left = [metric(f"vllm:{name}") for name in ("num_requests_running", "num_requests_waiting",
                                                    "kv_cache_usage_perc")]
        if left == [0, 0, 0]:
            return
        time.sleep(0.05)
    raise AssertionError(f"running, waiting, pool use after the client left: {left}")


def main():
    tests = [(name, call) for name, call in globals().items() if name.startswith("test_")]
    for name, call in tests:
        call()
        print("ok", name.removeprefix("test_"))
    print(len(tests), "client tests passed with openai", openai.__version__)


if __name__ == "__main__":
    main()
