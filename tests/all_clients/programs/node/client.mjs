// The AWS SDK for JavaScript, v3: answers the steps that ../protocol.py describes.
//
// Usage: client.mjs ENDPOINT BUCKET KEY_ID SECRET MODULES, where MODULES is the folder that npm installed into.

import { createReadStream, createWriteStream } from "node:fs";
import { createRequire } from "node:module";
import { createInterface } from "node:readline";
import { pipeline } from "node:stream/promises";

const [endpoint, bucket, accessKeyId, secretAccessKey, modules] = process.argv.slice(2);
const require = createRequire(`${modules}/`);
const sdk = require("@aws-sdk/client-s3");
const { Upload } = require("@aws-sdk/lib-storage");

const s3 = new sdk.S3Client({
  endpoint,
  region: "us-east-1",
  credentials: { accessKeyId, secretAccessKey },
  forcePathStyle: true,
  maxAttempts: 1,
});

async function save(input, file) {
  const answer = await s3.send(new sdk.GetObjectCommand({ Bucket: bucket, ...input }));
  await pipeline(answer.Body, createWriteStream(file));
}

async function pages(input) {
  const found = [];
  for await (const page of sdk.paginateListObjectsV2({ client: s3 }, { Bucket: bucket, ...input })) {
    found.push(page);
  }
  return found;
}

const steps = {
  async put({ file, key, content_type, metadata }) {
    const params = {
      Bucket: bucket,
      Key: key,
      Body: createReadStream(file),
      ContentType: content_type,
      Metadata: metadata,
    };
    await new Upload({ client: s3, partSize: 5 << 20, params }).done();
  },

  async get({ key, file }) {
    await save({ Key: key }, file);
  },

  async read_range({ key, first, length, file }) {
    await save({ Key: key, Range: `bytes=${first}-${first + length - 1}` }, file);
  },

  async list_all({ prefix }) {
    const found = (await pages({ Prefix: prefix })).flatMap((page) => page.Contents ?? []);
    return Object.fromEntries(found.map((entry) => [entry.Key, entry.Size]));
  },

  async list_level({ prefix }) {
    const found = await pages({ Prefix: prefix, Delimiter: "/" });
    const below = found.flatMap((page) => page.CommonPrefixes ?? []).map((entry) => entry.Prefix);
    return below.concat(found.flatMap((page) => page.Contents ?? []).map((entry) => entry.Key));
  },

  async copy({ source, target }) {
    const CopySource = `${bucket}/${source.split("/").map(encodeURIComponent).join("/")}`;
    await s3.send(new sdk.CopyObjectCommand({ Bucket: bucket, Key: target, CopySource }));
  },

  async delete({ key }) {
    await s3.send(new sdk.DeleteObjectCommand({ Bucket: bucket, Key: key }));
  },

  async delete_all({ prefix }) {
    const Objects = Object.keys(await steps.list_all({ prefix })).map((Key) => ({ Key }));
    const answer = await s3.send(new sdk.DeleteObjectsCommand({ Bucket: bucket, Delete: { Objects } }));
    if (answer.Errors?.length) throw new Error(JSON.stringify(answer.Errors));
  },

  async head({ key }) {
    const found = await s3.send(new sdk.HeadObjectCommand({ Bucket: bucket, Key: key }));
    return { size: found.ContentLength, content_type: found.ContentType, metadata: found.Metadata };
  },
};

const say = (line) => process.stdout.write(`${JSON.stringify(line)}\n`);
say({ version: require("@aws-sdk/client-s3/package.json").version });

for await (const line of createInterface({ input: process.stdin })) {
  const { do: name, ...step } = JSON.parse(line);
  try {
    say({ answer: (await steps[name](step)) ?? null });
  } catch (error) {
    say({ error: `${error.stack}\n${JSON.stringify(error)}` });
  }
}
