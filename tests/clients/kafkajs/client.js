// node client.js NODE_MODULES produce BOOTSTRAP TOPIC          a record for every line "key<TAB>value" of standard input
// node client.js NODE_MODULES consume BOOTSTRAP TOPIC GROUP    a line for every record; SIGTERM: commit, leave, end
"use strict";

const path = require("node:path");
const readline = require("node:readline");

const [nodeModules, mode, bootstrap, topic, groupId] = process.argv.slice(2);
const { Kafka, Partitioners, logLevel } = require(path.join(nodeModules, "kafkajs"));

const kafka = new Kafka({
  brokers: [bootstrap],
  logLevel: logLevel.WARN,
  logCreator: () => ({ namespace, log }) => console.error(namespace, JSON.stringify(log)),
});

async function produce() {
  const producer = kafka.producer({ createPartitioner: Partitioners.DefaultPartitioner });
  await producer.connect();
  let messages = [];
  const send = async () => {
    const full = messages;
    messages = [];
    if (full.length > 0) await producer.send({ topic, messages: full });
  };
  for await (const line of readline.createInterface({ input: process.stdin })) {
    const [key, value] = line.split("\t");
    messages.push({ key, value });
    if (messages.length === 500) await send();
  }
  await send();
  await producer.disconnect();
}

async function consume() {
  const consumer = kafka.consumer({ groupId, heartbeatInterval: 300, maxWaitTimeInMs: 200 });
  process.once("SIGTERM", () => consumer.disconnect());
  await consumer.connect();
  await consumer.subscribe({ topics: [topic], fromBeginning: true });
  await consumer.run({
    eachMessage: async ({ partition, message }) => {
      process.stdout.write(`Partition:${partition}\tOffset:${message.offset}\t${message.value}\n`);
    },
  });
}

({ produce, consume })[mode]().catch((error) => {
  console.error(error);
  process.exit(1);
});
