// The part of a driver that does not depend on its client; what it does is said in lines.py.
import readline from "node:readline";

export const target = JSON.parse(process.argv[2]);

const say = (id, outcome) => process.stdout.write(JSON.stringify({ id, ...outcome }) + "\n");

// `call` gets an AbortSignal, which is how a JavaScript host gives a request up.
export async function obey({ protocol, tools, call, close }) {
  const running = new Map();

  async function carryOut(order) {
    const given = new AbortController();
    running.set(order.id, given);
    try {
      const value = order.do === "tools" ? await tools() : await call(order.name, order.arguments, given.signal);
      say(order.id, { value });
    } catch (error) {
      say(order.id, { raised: given.signal.aborted ? "cancelled" : `${error.name}: ${error.message}` });
    }
  }

  say(0, { value: protocol });
  for await (const line of readline.createInterface({ input: process.stdin })) {
    const order = JSON.parse(line);
    if (order.do === "cancel") running.get(order.order).abort("the host gave up");
    else carryOut(order);
  }
  await close();
}
