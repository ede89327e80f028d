// An agent made with Vercel's AI SDK. API: openai (Responses), openai-chat, anthropic. The last one streams.
import { createAnthropic } from '@ai-sdk/anthropic';
import { createOpenAI } from '@ai-sdk/openai';
import { generateText, isStepCount, jsonSchema, streamText, tool } from 'ai';
import { api, baseURL, bash, description, parameters, task } from './shell.mjs';

const models = {
  openai: () => createOpenAI({ baseURL })('gpt-4.1'),
  'openai-chat': () => createOpenAI({ baseURL }).chat('gpt-4.1'),
  anthropic: () => createAnthropic({ baseURL })('claude-sonnet-5'),
};
const settings = {
  model: models[api](),
  prompt: task,
  stopWhen: isStepCount(12),
  tools: { bash: tool({ description, inputSchema: jsonSchema(parameters), execute: bash }) },
};
const result = api === 'anthropic' ? streamText(settings) : await generateText(settings);
console.log(await result.text);
