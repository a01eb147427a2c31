"""Calls of litellm through `gpulens proxy`, for test_proxy_clients.py: prints what each returned, as JSON by the text of the request.

URL, KEY, and BROKE, a key whose budget is used up, are variables. Runs in the environment build/litellm.
"""
import asyncio
import json
import os

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # its list of prices is not fetched
import litellm  # noqa: E402

URL, KEY, BROKE = os.environ["URL"], os.environ["KEY"], os.environ["BROKE"]
# By the prefix of names of models: api_base, and a model.
PROVIDERS = {"openai": (URL + "/v1", "gpt-test"), "anthropic": (URL, "claude-test"), "gemini": (URL + "/v1beta", "gemini-test"),
             "ollama_chat": (URL, "llama-test"), "ollama": (URL, "llama-test")}
TOOLS = [{"type": "function", "function": {"name": "f", "description": "weather", "parameters": {"type": "object", "properties": {"city": {"type": "string"}}}}}]
results = {}


def call(provider, text, function=litellm.completion, model=None, key=KEY, **more):
    base, usual = PROVIDERS[provider]
    return function(model=f"{provider}/{model or usual}", api_base=base, api_key=key, num_retries=0, max_tokens=50,
                    messages=[{"role": "user", "content": text}], **more)


def error_of(provider, text, **more):
    try:
        call(provider, text, **more)
    except Exception as error:
        return {"type": type(error).__name__, "message": str(error)}
    return None


def called(answer):
    return [[one.function.name, json.loads(one.function.arguments)] for one in answer.choices[0].message.tool_calls]


def text_of(pieces):
    return "".join(piece.choices[0].delta.content or "" for piece in pieces if piece.choices)


def calls_of(provider):
    def note(what, result, text=None):
        results[f"litellm {provider} {what}"] = result(text or f"litellm {provider} {what}")

    def plain(text):
        answer = call(provider, text)
        return {"text": answer.choices[0].message.content, "prompt": answer.usage.prompt_tokens, "completion": answer.usage.completion_tokens}

    def leave(text):
        stream = call(provider, text, model="endless", stream=True)
        begin = next(stream).choices[0].delta.content
        stream.close()
        return begin

    note("plain", plain)
    note("stream", lambda text: text_of(call(provider, text, stream=True)))
    if provider != "ollama":  # its tools are a matter of the prompt
        note("tools", lambda text: called(call(provider, text, tools=TOOLS)))
        note("streamed tools", lambda text: called(litellm.stream_chunk_builder(list(call(provider, text, tools=TOOLS, stream=True)))))
    note("endless", leave)
    note("busy", lambda text: error_of(provider, text, model="busy"))
    note("refused", lambda text: error_of(provider, text, key=BROKE))
    note("wrong key", lambda text: error_of(provider, text, key="gpl_ada_wrong"))


async def asynchronous(text):
    stream = await call("openai", text, litellm.acompletion, stream=True, stream_options={"include_usage": True})
    pieces = [piece async for piece in stream]
    counted = [piece.usage for piece in pieces if getattr(piece, "usage", None)]
    return {"text": text_of(pieces), "prompt": counted[-1].prompt_tokens}


for name in PROVIDERS:
    calls_of(name)
results["litellm async"] = asyncio.run(asynchronous("litellm async"))
for name in ("openai", "ollama", "gemini"):
    answer = litellm.embedding(model=f"{name}/embed-test", api_base=PROVIDERS[name][0], api_key=KEY, input=[f"litellm {name} embeddings"], num_retries=0)
    results[f"litellm {name} embeddings"] = answer.data[0]["embedding"]
print(json.dumps(results))
