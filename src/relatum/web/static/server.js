// Questions to the server, and its refusals in plain words.

export class Refused extends Error {
  constructor(message, code) {
    super(message);
    this.code = code;
  }
}

const KEY = "relatum-token"; // forgotten with the tab

export const setToken = (token) => sessionStorage.setItem(KEY, token);

const PLAIN = {
  too_large: "This is more than the server reads at once.",
  invalid: "The server cannot read this.",
  busy: "The server has too much to do just now; try again in a moment.",
  unavailable: "The server is not taking requests just now; try again in a moment.",
  unauthorised: "This server asks for a token.",
  too_slow: "This took the server too long.",
  internal: "Something went wrong in the server.",
  not_found: "The server does not have this.",
  not_allowed: "The server does not do this here.",
  wrong_host: "The server does not answer to the name in this address.",
};

export async function ask(path, body, signal) {
  const headers = { Accept: "application/json" };
  const token = sessionStorage.getItem(KEY);
  if (token) headers.Authorization = `Bearer ${token}`;
  if (body !== undefined) headers["Content-Type"] = "application/json";
  let response;
  try {
    response = await fetch(path, {
      method: body === undefined ? "GET" : "POST",
      headers,
      body: body === undefined ? undefined : JSON.stringify(body),
      signal,
    });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Refused("The server does not answer. Is “relatum serve” still running?", "unreachable");
  }
  let answer = null;
  try {
    answer = await response.json();
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Refused(`The server's answer (${response.status}) cannot be read; is it relatum's?`, "unreadable");
  }
  if (response.ok) return answer;
  const { code = "", message = "" } = answer?.error ?? {};
  const plain = PLAIN[code] ?? `The server refused (${response.status}).`;
  throw new Refused([plain, message].filter(Boolean).join(" "), code);
}
