"""Uses a server through the `openai` package: completions, chat, streams, the asynchronous client, errors, retries.

    python openai_client.py URL KEY

The server has two models, `base` without a chat template and `chat` with one, and asks for KEY. Prints `ok` at the end; anything
unexpected is an exception.
"""

import asyncio
import math
import sys

import openai

URL, KEY = sys.argv[1].rstrip("/") + "/v1", sys.argv[2]
client = openai.OpenAI(base_url=URL, api_key=KEY, max_retries=0)
PROMPT = "The horse and the tiger"


def raises(kind, call):
    """The error of `kind` that `call` raises."""
    try:
        call()
    except kind as error:
        return error
    raise AssertionError(f"no {kind.__name__}")


def completions():
    names = [model.id for model in client.models.list()]
    assert names == ["base", "chat"], names
    assert client.models.retrieve("chat").id == "chat"
    whole = client.completions.create(model="base", prompt=PROMPT, max_tokens=8, temperature=0, logprobs=3)
    choice = whole.choices[0]
    assert whole.object == "text_completion" and choice.finish_reason in ("length", "stop")
    assert whole.usage.total_tokens == whole.usage.prompt_tokens + whole.usage.completion_tokens
    assert len(choice.logprobs.tokens) == whole.usage.completion_tokens == len(choice.logprobs.token_logprobs)
    for value, top in zip(choice.logprobs.token_logprobs, choice.logprobs.top_logprobs):
        assert value == max(top.values()) and len(top) >= 3
    again = client.completions.create(model="base", prompt=PROMPT, max_tokens=8, temperature=0)
    assert again.choices[0].text == choice.text and again.choices[0].logprobs is None

    several = client.completions.create(model="base", prompt=[PROMPT, "A tiger"], max_tokens=4, n=2, temperature=1, seed=5)
    assert [c.index for c in several.choices] == [0, 1, 2, 3]
    same = client.completions.create(model="base", prompt=[PROMPT, "A tiger"], max_tokens=4, n=2, temperature=1, seed=5)
    assert [c.text for c in several.choices] == [c.text for c in same.choices]

    echo = client.completions.create(model="base", prompt=PROMPT, max_tokens=0, echo=True, logprobs=1)
    assert echo.choices[0].text == PROMPT
    assert echo.choices[0].logprobs.token_logprobs[0] is None
    assert all(value < 0 for value in echo.choices[0].logprobs.token_logprobs[1:])

    stream = client.completions.create(
        model="base", prompt=PROMPT, max_tokens=8, temperature=0, stream=True, stream_options={"include_usage": True}
    )
    text, usage, finish = "", None, None
    for chunk in stream:
        usage = chunk.usage or usage
        for part in chunk.choices:
            text, finish = text + part.text, part.finish_reason or finish
    assert text == choice.text and finish == choice.finish_reason
    # What was found in the cache may differ.
    assert (usage.prompt_tokens, usage.total_tokens) == (whole.usage.prompt_tokens, whole.usage.total_tokens)


def chat():
    messages = [{"role": "user", "content": "Say a word."}]
    whole = client.chat.completions.create(
        model="chat", messages=messages, max_tokens=8, temperature=0, logprobs=True, top_logprobs=2
    )
    choice = whole.choices[0]
    assert choice.message.role == "assistant" and len(choice.logprobs.content) == whole.usage.completion_tokens
    for token in choice.logprobs.content:
        assert len(token.top_logprobs) == 2 and token.logprob == token.top_logprobs[0].logprob
        assert math.isfinite(token.logprob)
    stream = client.chat.completions.create(model="chat", messages=messages, max_tokens=8, temperature=0, stream=True)
    deltas = [part.delta for chunk in stream for part in chunk.choices]
    assert deltas[0].role == "assistant"
    assert "".join(delta.content or "" for delta in deltas) == choice.message.content
    parts = [{"role": "user", "content": [{"type": "text", "text": "Say a word."}]}]
    same = client.chat.completions.create(model="chat", messages=parts, max_completion_tokens=8, temperature=0)
    assert same.choices[0].message.content == choice.message.content


async def at_once():
    calls = openai.AsyncOpenAI(base_url=URL, api_key=KEY)
    prompts = [f"{PROMPT} {number}" for number in range(16)]

    async def answer(prompt):
        one = await calls.completions.create(model="base", prompt=prompt, max_tokens=12, temperature=0)
        return one.choices[0].text

    async def streamed(prompt):
        text = ""
        async for chunk in await calls.completions.create(
            model="base", prompt=prompt, max_tokens=12, temperature=0, stream=True
        ):
            text += "".join(part.text for part in chunk.choices)
        return text

    alone = [await answer(prompt) for prompt in prompts]
    assert alone == await asyncio.gather(*map(answer, prompts))
    assert alone == await asyncio.gather(*map(streamed, prompts))


def errors():
    create = client.completions.create
    stranger = openai.OpenAI(base_url=URL, api_key="wrong", max_retries=0)
    raises(openai.AuthenticationError, lambda: stranger.models.list())
    raises(openai.NotFoundError, lambda: create(model="nothing", prompt=PROMPT))
    raises(openai.NotFoundError, lambda: client.embeddings.create(model="base", input=PROMPT))
    for arguments, named in [
        ({"temperature": -1}, "temperature"),
        ({"logprobs": 21}, "logprobs"),
        ({"max_tokens": 10**6}, "max_tokens"),
        ({"presence_penalty": 0.5}, "presence_penalty"),
        ({"logit_bias": {"5": 1}}, "logit_bias"),
        ({"best_of": 3}, "best_of"),
        ({"extra_body": {"no_such_thing": 1}}, "no_such_thing"),
    ]:
        error = raises(openai.BadRequestError, lambda: create(model="base", prompt=PROMPT, **arguments))
        assert named in error.message, (named, error.message)
    messages = [{"role": "user", "content": "Say a word."}]
    error = raises(
        openai.BadRequestError, lambda: client.chat.completions.create(model="base", messages=messages, max_tokens=4)
    )
    assert "template" in error.message
    tools = [{"type": "function", "function": {"name": "f", "parameters": {}}}]
    error = raises(
        openai.BadRequestError,
        lambda: client.chat.completions.create(model="chat", messages=messages, tools=tools, max_tokens=4),
    )
    assert "tools" in error.message


completions()
chat()
asyncio.run(at_once())
errors()
print("ok")
