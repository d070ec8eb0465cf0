"""Uses a server through the `openai` package: completions, chat, streams, the asynchronous client, errors, retries.

    python openai_client.py URL KEY

The server has two models, `base` without a chat template and `chat` with one, and asks for KEY. Prints `ok` at the end; anything
unexpected is an exception.
"""

import asyncio
import math
import sys
from typing import Annotated, Literal

import openai
import pydantic

URL, KEY = sys.argv[1].rstrip("/") + "/v1", sys.argv[2]
client = openai.OpenAI(base_url=URL, api_key=KEY, max_retries=0)
PROMPT = "The horse and the tiger"
PLAIN = {"repetition_penalty": 1}


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
        model="chat",
        messages=messages,
        max_tokens=8,
        temperature=0,
        logprobs=True,
        top_logprobs=2,
        # The model's folder has a penalty, with which the likeliest token is not always said.
        extra_body=PLAIN,
    )
    choice = whole.choices[0]
    assert choice.message.role == "assistant" and len(choice.logprobs.content) == whole.usage.completion_tokens
    for token in choice.logprobs.content:
        assert len(token.top_logprobs) == 2 and token.logprob == token.top_logprobs[0].logprob
        assert math.isfinite(token.logprob)
    stream = client.chat.completions.create(
        model="chat", messages=messages, max_tokens=8, temperature=0, stream=True, extra_body=PLAIN
    )
    deltas = [part.delta for chunk in stream for part in chunk.choices]
    assert deltas[0].role == "assistant"
    assert "".join(delta.content or "" for delta in deltas) == choice.message.content
    parts = [{"role": "user", "content": [{"type": "text", "text": "Say a word."}]}]
    same = client.chat.completions.create(
        model="chat", messages=parts, max_completion_tokens=8, temperature=0, extra_body=PLAIN
    )
    assert same.choices[0].message.content == choice.message.content


class Animal(pydantic.BaseModel):
    name: Literal["horse", "tiger"]
    legs: Annotated[int, pydantic.Field(ge=0, le=99)]
    tame: bool


def structured():
    """The helpers that parse answers, whole and as streams, and vLLM's fields."""
    messages = [{"role": "user", "content": "Describe an animal."}]
    arguments = {"model": "chat", "messages": messages, "max_tokens": 300, "temperature": 1, "seed": 4}
    parsed = client.chat.completions.parse(**arguments, response_format=Animal)
    animal = parsed.choices[0].message.parsed
    assert isinstance(animal, Animal) and parsed.choices[0].finish_reason == "stop", parsed
    with client.chat.completions.stream(**arguments, response_format=Animal) as stream:
        kinds = [event.type for event in stream]
        final = stream.get_final_completion()
    assert final.choices[0].message.parsed == animal, final
    assert kinds.count("content.delta") > 1 and kinds[-1] == "content.done", kinds
    greedy = {"model": "chat", "messages": messages, "max_tokens": 8, "temperature": 0}
    with client.chat.completions.stream(**greedy) as stream:
        text = "".join(event.delta for event in stream if event.type == "content.delta")
    assert text == client.chat.completions.create(**greedy).choices[0].message.content
    for field, value in [("guided_regex", "a{3}"), ("structured_outputs", {"choice": ["aaa"]})]:
        answer = client.completions.create(model="base", prompt=PROMPT, max_tokens=20, extra_body={field: value})
        assert answer.choices[0].text == "aaa", answer
    begun = [*messages, {"role": "assistant", "content": "It is a"}]
    gone_on = client.chat.completions.create(
        model="chat", messages=begun, max_tokens=8, extra_body={"continue_final_message": True, "min_p": 0.1}
    )
    assert gone_on.usage.completion_tokens >= 1
    assert client.models.retrieve("chat").default_sampling_params["top_k"] == 20


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
        ({"presence_penalty": 2.5}, "presence_penalty"),
        ({"logit_bias": {"5": 101}}, "logit_bias"),
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
structured()
asyncio.run(at_once())
errors()
print("ok")
