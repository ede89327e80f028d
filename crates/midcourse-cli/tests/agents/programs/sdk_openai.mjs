// A loop around OpenAI's own package. API: chat, responses. Both stream.
import OpenAI from 'openai';
import { api, baseURL, bash, description, parameters, task } from './shell.mjs';

const client = new OpenAI({ baseURL });

async function chat() {
  const tools = [{ type: 'function', function: { name: 'bash', description, parameters } }];
  const messages = [{ role: 'user', content: task }];
  for (;;) {
    const stream = client.chat.completions.stream({ model: 'gpt-4.1', messages, tools });
    const { message } = (await stream.finalChatCompletion()).choices[0];
    if (!message.tool_calls?.length) return message.content;
    messages.push(message);
    for (const call of message.tool_calls) {
      const content = JSON.stringify(bash(JSON.parse(call.function.arguments)));
      messages.push({ role: 'tool', tool_call_id: call.id, content });
    }
  }
}

async function responses() {
  const tools = [{ type: 'function', name: 'bash', description, parameters, strict: false }];
  const input = [{ role: 'user', content: task }];
  for (;;) {
    const stream = client.responses.stream({ model: 'gpt-4.1', input, tools });
    const { output, output_text } = await stream.finalResponse();
    const calls = output.filter((item) => item.type === 'function_call');
    if (!calls.length) return output_text;
    for (const { type, call_id, name, arguments: text } of calls) {
      input.push({ type, call_id, name, arguments: text });
      input.push({ type: 'function_call_output', call_id, output: JSON.stringify(bash(JSON.parse(text))) });
    }
  }
}

console.log(await { chat, responses }[api]());
