// Calls of the npm packages openai and @anthropic-ai/sdk through `gpulens proxy`, for test_proxy_clients.py: prints what each
// returned, as JSON by the text of the request. URL, KEY, and BROKE, a key whose budget is used up, are variables; NPM is the
// folder in which the packages are installed.
import {createRequire} from 'node:module';
import path from 'node:path';
import {pathToFileURL} from 'node:url';

const {URL: url, KEY, BROKE, NPM} = process.env;
const load = name => import(pathToFileURL(createRequire(path.join(NPM, 'package.json')).resolve(name)));
const {default: OpenAI} = await load('openai');
const {default: Anthropic} = await load('@anthropic-ai/sdk');

const openai = (apiKey = KEY) => new OpenAI({apiKey, baseURL: url + '/v1'});
const anthropic = (apiKey = KEY) => new Anthropic({apiKey, baseURL: url});
const results = {};
Object.assign(process.env, {OPENAI_BASE_URL: url + '/v1', OPENAI_API_KEY: KEY, ANTHROPIC_BASE_URL: url, ANTHROPIC_API_KEY: KEY});
const note = async (text, call) => { results[text] = await call(text); };
const errorOf = async promise => {
  try {
    await promise;
  } catch (error) {
    return {name: error.constructor.name, status: error.status, message: error.message, type: error.type ?? error.error?.error?.type ?? null};
  }
  return null;
};
// The first text of a stream, which is left then.
const first = async (stream, textOf) => {
  for await (const piece of stream) {
    if (textOf(piece)) return textOf(piece);
  }
  return null;
};

const chat = (text, more = {}) => ({model: 'gpt-test', messages: [{role: 'user', content: text}], ...more});
const functions = [{type: 'function', function: {name: 'f', parameters: {type: 'object', properties: {}}}}];
const called = calls => calls.map(call => [call.function.name, JSON.parse(call.function.arguments)]);

await note('npm chat', async text => {
  const {data, response} = await openai().chat.completions.create(chat(text)).withResponse();
  return {text: data.choices[0].message.content, total: data.usage.total_tokens, profile: response.headers.get('agent-execution-profile')};
});
await note('npm streamed chat', async text => {
  const pieces = [];
  for await (const piece of await openai().chat.completions.create(chat(text, {stream: true}))) pieces.push(piece);
  return {text: pieces.map(piece => piece.choices[0].delta.content ?? '').join(''), usage: pieces.some(piece => 'usage' in piece)};
});
await note('npm counted chat', async text => {
  let usage;
  const wanted = chat(text, {stream: true, stream_options: {include_usage: true}});
  for await (const piece of await openai().chat.completions.create(wanted)) usage = piece.usage ?? usage;
  return usage.total_tokens;
});
await note('npm tools', async text => called((await openai().chat.completions.create(chat(text, {tools: functions}))).choices[0].message.tool_calls));
await note('npm streamed tools', async text => {
  const message = await openai().chat.completions.stream(chat(text, {tools: functions})).finalMessage();
  return called(message.tool_calls);
});
await note('npm variables', async text => (await new OpenAI().chat.completions.create(chat(text))).choices[0].message.content);
await note('npm response', async text => (await openai().responses.create({model: 'gpt-test', input: text})).output_text);
await note('npm streamed response', async text => {
  const response = await openai().responses.stream({model: 'gpt-test', input: text}).finalResponse();
  return {text: response.output_text, total: response.usage.total_tokens};
});
await note('npm response with tools', async text => {
  const tools = [{type: 'function', name: 'f', parameters: {type: 'object', properties: {}}, strict: false}];
  const response = await openai().responses.stream({model: 'gpt-test', input: text, tools}).finalResponse();
  return JSON.parse(response.output[0].arguments);
});
await note('npm embeddings', async text => (await openai().embeddings.create({model: 'embed-test', input: text})).data[0].embedding);
await note('npm endless chat', async text =>
  first(await openai().chat.completions.create(chat(text, {model: 'endless', stream: true})), piece => piece.choices[0]?.delta.content));
await note('npm aborted response', async text => {
  const leaving = new AbortController();
  const stream = await openai().responses.create({model: 'endless', input: text, stream: true}, {signal: leaving.signal});
  for await (const event of stream) {
    if (event.type === 'response.output_text.delta') leaving.abort();
  }
  return null;
});
await note('npm busy', text => errorOf(openai().chat.completions.create(chat(text, {model: 'busy'}), {maxRetries: 0})));
await note('npm cut', text => errorOf(openai().chat.completions.stream(chat(text, {model: 'cut'})).finalMessage()));
// With the retries that the client makes by itself: a used-up budget is refused once.
await note('npm refused', text => errorOf(openai(BROKE).chat.completions.create(chat(text, {max_tokens: 50}))));
await note('npm wrong key', text => errorOf(openai('gpl_ada_wrong').chat.completions.create(chat(text))));
results['npm models'] = (await openai().models.list()).data.map(model => model.id);
results['npm model'] = (await openai().models.retrieve('gpt-test')).id;

const message = (text, more = {}) => ({model: 'claude-test', max_tokens: 50, messages: [{role: 'user', content: text}], ...more});
const tools = [{name: 'f', input_schema: {type: 'object', properties: {}}}];
await note('npm message', async text => (await anthropic().messages.create(message(text))).content[0].text);
await note('npm variables of a message', async text => (await new Anthropic().messages.create(message(text))).content[0].text);
await note('npm streamed message', async text => {
  const final = await anthropic().messages.stream(message(text)).finalMessage();
  return {text: final.content[0].text, output: final.usage.output_tokens};
});
await note('npm message with tools', async text => (await anthropic().messages.create(message(text, {tools}))).content[0].input);
await note('npm streamed message with tools', async text => (await anthropic().messages.stream(message(text, {tools})).finalMessage()).content[0].input);
await note('npm endless message', async text =>
  first(await anthropic().messages.create(message(text, {model: 'endless', stream: true})), event => event.delta?.text));
await note('npm busy message', text => errorOf(anthropic().messages.create(message(text, {model: 'busy'}), {maxRetries: 0})));
await note('npm cut message', text => errorOf(anthropic().messages.stream(message(text, {model: 'cut'})).finalMessage()));
await note('npm refused message', text => errorOf(anthropic(BROKE).messages.create(message(text))));
await note('npm wrong key of a message', text => errorOf(anthropic('gpl_ada_wrong').messages.create(message(text))));
results['npm claude models'] = (await anthropic().models.list()).data.map(model => model.id);
results['npm claude model'] = (await anthropic().models.retrieve('claude-test')).id;
console.log(JSON.stringify(results));
