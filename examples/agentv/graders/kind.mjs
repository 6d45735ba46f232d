// A `javascript` assertion in a file: its default export is called with the answer's text and its context.
export default function (output, context) {
  const found = context.config.words.filter((word) => output.toLowerCase().includes(word));
  return { score: found.length / context.config.words.length, reason: `found: ${found.join(", ")}` };
}
