// Runs one JavaScript check: what to run comes as JSON on standard input, what it says goes to the file of argument 1.
import { readFileSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const given = JSON.parse(readFileSync(0, "utf8"));

// An expression; else declarations and then an expression; else the body of a function.
function fromCode(code) {
  const AsyncFunction = (async () => {}).constructor;
  const text = code.trim().replace(/;+\s*$/, "");
  const end = /^(const|let|var)\s/.test(text) ? text.lastIndexOf(";") + 1 : 0;
  const forms = [`return (${text}\n)`, ...(end ? [`${text.slice(0, end)} return (${text.slice(end)}\n)`] : []), text];
  let problem;
  for (const body of forms) {
    try {
      return new AsyncFunction("output", "context", "require", body);
    } catch (error) {
      problem = error;
    }
  }
  throw problem;
}

async function fromFile(file, name) {
  const module = await import(pathToFileURL(file).href);
  const exported = name ? (module[name] ?? module.default?.[name]) : (module.default ?? module);
  const found = typeof exported === "function" ? exported : exported?.default;
  if (typeof found !== "function") throw new Error(`${file} exports no function${name ? ` ${name}` : ""}`);
  return found;
}

let said;
try {
  const check = given.file ? await fromFile(given.file, given.function) : fromCode(given.code);
  const value = await check(given.output, given.context, createRequire(process.cwd() + "/"));
  said = { value: value === undefined ? null : value };
} catch (error) {
  said = { error: String(error?.message ? `${error.name}: ${error.message}` : error) };
}
writeFileSync(process.argv[2], JSON.stringify(said));
process.exit(0);
