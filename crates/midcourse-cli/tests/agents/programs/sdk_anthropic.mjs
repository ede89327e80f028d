// A loop around Anthropic's own package. API: messages. Streams.
import Anthropic from '@anthropic-ai/sdk';
import { baseURL, bash, description, parameters, task } from './shell.mjs';

const client = new Anthropic({ baseURL });
const tools = [{ name: 'bash', description, input_schema: parameters }];
const messages = [{ role: 'user', content: task }];
for (;;) {
  const stream = client.messages.stream({ model: 'claude-sonnet-5', max_tokens: 1000, messages, tools });
  const { content } = await stream.finalMessage();
  const calls = content.filter((block) => block.type === 'tool_use');
  if (!calls.length) {
    console.log(content.map((block) => block.text).join(''));
    break;
  }
  messages.push({ role: 'assistant', content });
  const results = calls.map((call) => {
    const { output, exitCode } = bash(call.input);
    return { type: 'tool_result', tool_use_id: call.id, content: output, is_error: exitCode !== 0 };
  });
  messages.push({ role: 'user', content: results });
}
