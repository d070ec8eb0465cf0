// Uses a server through the `openai` package of npm: completions, chat, streams, many requests at once, errors, retries.
//
//     NODE_PATH=FOLDER/node_modules node openai_client.cjs URL KEY
//
// The server has two models, `base` without a chat template and `chat` with one, and asks for KEY. Prints `ok` at the end;
// anything unexpected is an exception.

"use strict";

const assert = require("node:assert/strict");
const http = require("node:http");
const OpenAI = require("openai");
const { zodResponseFormat } = require("openai/helpers/zod");
const { z } = require("zod");

const [server, key] = process.argv.slice(2);
const client = new OpenAI({ baseURL: `${server}/v1`, apiKey: key, maxRetries: 0 });
const prompt = "The horse and the tiger";
const greedy = { model: "base", prompt, max_tokens: 8, temperature: 0 };
const messages = [{ role: "user", content: "Say a word." }];

async function completions() {
  const names = (await client.models.list()).data.map((model) => model.id);
  assert.deepEqual(names, ["base", "chat"]);
  const whole = await client.completions.create({ ...greedy, logprobs: 2 });
  const [choice] = whole.choices;
  assert.equal(choice.logprobs.tokens.length, whole.usage.completion_tokens);
  choice.logprobs.token_logprobs.forEach((value, at) => {
    assert.equal(value, Math.max(...Object.values(choice.logprobs.top_logprobs[at])));
  });
  let [text, usage] = ["", null];
  for await (const chunk of await client.completions.create({
    ...greedy,
    stream: true,
    stream_options: { include_usage: true },
  })) {
    text += chunk.choices.map((part) => part.text).join("");
    usage = chunk.usage ?? usage;
  }
  assert.equal(text, choice.text);
  assert.equal(usage.total_tokens, whole.usage.total_tokens);
}

async function chat() {
  const request = { model: "chat", messages, max_tokens: 8, temperature: 0 };
  const whole = await client.chat.completions.create(request);
  // The package's helper puts the pieces together and checks their form.
  const streamed = await client.chat.completions.stream(request).finalContent();
  assert.equal(streamed, whole.choices[0].message.content);
}

// The helpers that parse answers, whole and as streams.
async function structured() {
  const Animal = z.object({ name: z.enum(["horse", "tiger"]), legs: z.number().int().min(0).max(99), tame: z.boolean() });
  const response_format = zodResponseFormat(Animal, "animal");
  const request = { model: "chat", messages, max_tokens: 300, temperature: 1, seed: 4, response_format };
  const whole = await client.chat.completions.parse(request);
  const animal = whole.choices[0].message.parsed;
  assert(["horse", "tiger"].includes(animal.name) && Number.isInteger(animal.legs), JSON.stringify(animal));
  assert.equal(whole.choices[0].finish_reason, "stop");
  const streamed = await client.chat.completions.stream(request).finalChatCompletion();
  assert.deepEqual(streamed.choices[0].message.parsed, animal);
}

async function atOnce() {
  const answer = async (number) =>
    (await client.completions.create({ ...greedy, prompt: `${prompt} ${number}` })).choices[0].text;
  const numbers = [...Array(16).keys()];
  const alone = [];
  for (const number of numbers) alone.push(await answer(number));
  assert.deepEqual(await Promise.all(numbers.map(answer)), alone);
}

async function errors() {
  const stranger = new OpenAI({ baseURL: `${server}/v1`, apiKey: "wrong", maxRetries: 0 });
  await assert.rejects(stranger.models.list(), OpenAI.AuthenticationError);
  await assert.rejects(client.completions.create({ ...greedy, model: "nothing" }), OpenAI.NotFoundError);
  await assert.rejects(client.completions.create({ ...greedy, temperature: -1 }), (error) => {
    assert(error instanceof OpenAI.BadRequestError);
    return /temperature/.test(error.message);
  });
  await assert.rejects(client.chat.completions.create({ model: "base", messages, max_tokens: 4 }), /template/);
}

// A proxy that answers 429 first: the package must ask again, and then get the answer.
async function retries() {
  let asked = 0;
  const proxy = http.createServer((request, response) => {
    asked += 1;
    if (asked === 1) {
      response.writeHead(429, { "retry-after": "0", "content-type": "application/json" });
      response.end('{"error": {"message": "busy"}}');
      request.resume();
      return;
    }
    const { method, headers, url } = request;
    const passed = http.request(server + url, { method, headers }, (answer) => {
      response.writeHead(answer.statusCode, answer.headers);
      answer.pipe(response);
    });
    request.pipe(passed);
  });
  await new Promise((resolve) => proxy.listen(0, "127.0.0.1", resolve));
  const baseURL = `http://127.0.0.1:${proxy.address().port}/v1`;
  const patient = new OpenAI({ baseURL, apiKey: key, maxRetries: 2 });
  const [again, direct] = [await patient.completions.create(greedy), await client.completions.create(greedy)];
  assert.equal(again.choices[0].text, direct.choices[0].text);
  assert.equal(asked, 2);
  proxy.closeAllConnections();
  await new Promise((resolve) => proxy.close(resolve));
}

(async () => {
  for (const part of [completions, chat, structured, atOnce, errors, retries]) await part();
  console.log("ok");
})();
