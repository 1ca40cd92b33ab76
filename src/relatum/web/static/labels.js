// The colour of a label, the same as in relatum's HTML files: see relatum/look/colours.py.

export function hue(label) {
  let hash = 9719;
  for (const byte of new TextEncoder().encode(label)) hash = Math.imul(hash ^ byte, 16777619) >>> 0;
  return ((hash ^ (hash >>> 15)) >>> 0) % 360;
}

// The same number of digits everywhere.
export const shownScore = (score) => (score === null || score === undefined ? "no score" : score.toFixed(2));

export const count = (number, one, many = `${one}s`) => `${number} ${number === 1 ? one : many}`;
