// An agent made with OpenAI's Agents SDK for Node. API: chat, responses. Takes its address from the environment or .env.
import { Agent, run, setOpenAIAPI, setTracingDisabled, tool } from '@openai/agents';
import { api, bash, description, parameters, task } from './shell.mjs';

setTracingDisabled(true);
setOpenAIAPI(api === 'chat' ? 'chat_completions' : 'responses');
const execute = async (input) => JSON.stringify(bash(input));
const shell = tool({ name: 'bash', description, parameters: { ...parameters, additionalProperties: false }, strict: false, execute });
const agent = new Agent({ name: 'agent', instructions: 'You repair builds.', model: 'gpt-4.1', tools: [shell] });
console.log((await run(agent, task, { maxTurns: 12 })).finalOutput);
