#!/usr/bin/env python3
"""Compares the JSON Schema of `tapestry config schema` with the program: which configs do they accept? The configs are
those of configs/, each with wrong values, other right values and unknown names of every key, on every kind of model.
Prints each config on which they disagree. Fails if the schema refuses a config that the program accepts, since an editor
would mark it as wrong; but for numbers in quotes, which the program reads as numbers.

compare_schema.py PROGRAM    needs the Python packages jsonschema and pyyaml; exit code 77 (skipped) without
"""

import collections
import concurrent.futures
import json
import pathlib
import re
import subprocess
import sys
import tempfile

try:
    import jsonschema
    import yaml
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

# Values that only the program accepts: a number in quotes, and an empty text for an empty list of numbers.
ACCEPTED_BY_PROGRAM = ("=\"1\"", "data.corpus_weights=''")
SOURCE = pathlib.Path(__file__).resolve().parents[3]
# The section data of a config of each kind of model.
MODELS = {
    "seq2seq": {"task": "copy"},
    "language_model": {"task": "text", "train_text": "text.txt"},
    "masked_language_model": {"task": "toy_sentences"},
    "classifier": {"task": "labelled_text", "train_text": "text.txt"},
    "tagger": {"task": "tagged_text", "train_text": "text.txt"},
    "vision_transformer": {"task": "images", "train_images": "images.csv", "image_height": "8", "image_width": "8"},
}
# Values, as a config has them, that are wrong for most keys.
VALUES = ["-1", "0", "1.5", "1e400", "99999999999999999999", "nan", "true", "\"1\"", "word", "''", "[]", "[1, 2]",
          "{a: 1}", "null", "110%", "5%", "0x10", "1_000", "yes", "3h", ".inf"]
# Texts that are wrong as a whole, or as a section.
TEXTS = ["", "[]", "word", "model: 3", "model: []", "model: {}", "model: null", "modell: {}", "model: {d_modl: 8}",
         "model: {kind: gpt}", "model: {Kind: tagger}", "train: {steps: {value: 3}}", "optimizer: adam",
         "schedule: {kind: linear}", "data: {task: [copy]}", "train: {run_dir: ~}", "decoding: {beam: 3}",
         "train: {threads: 2, treads: 3}", "1: 2", "model: {1: 2}", "true: {}"]


def scalar_of(node):
    """The value of a scalar in the core schema of YAML 1.2, as editors read it."""
    text = node.value
    if node.style in ("'", '"', "|", ">"):
        return text
    if text in ("", "~", "null", "Null", "NULL"):
        return None
    if text in ("true", "True", "TRUE", "false", "False", "FALSE"):
        return text.lower() == "true"
    if re.fullmatch("[-+]?[0-9]+", text):
        return int(text)
    if re.fullmatch("0x[0-9a-fA-F]+", text):
        return int(text, 16)
    if re.fullmatch(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?", text):
        return float(text)
    if re.fullmatch(r"[-+]?\.(inf|Inf|INF)", text):
        return float("-inf" if text.startswith("-") else "inf")
    if re.fullmatch(r"\.(nan|NaN|NAN)", text):
        return float("nan")
    return text


def value_of(node):
    if isinstance(node, yaml.MappingNode):
        return {str(value_of(key)) if not isinstance(key, yaml.ScalarNode) else key.value: value_of(value)
                for key, value in node.value}
    if isinstance(node, yaml.SequenceNode):
        return [value_of(item) for item in node.value]
    return scalar_of(node) if node is not None else None


def with_key(sections, section, key, value):
    """A config with these sections and another value of a key."""
    changed = {name: dict(keys) for name, keys in sections.items()}
    changed.setdefault(section, {})[key] = value
    return "".join(f"{name}: {{{', '.join(f'{k}: {v}' for k, v in keys.items())}}}\n" for name, keys in changed.items())


def other_values(schema):
    """Values that are right for a key by itself, from its part of the schema."""
    values = []
    for part in [schema, *schema.get("anyOf", [])]:
        values += [json.dumps(v) for v in part.get("enum", [])]
        if part.get("type") in ("integer", "number"):
            values += [json.dumps(part[limit]) for limit in ("minimum", "maximum") if limit in part]
            values += ["0.25", "0.5"] if part["type"] == "number" else ["2", "7"]
        if part.get("type") == "boolean":
            values += ["true", "false"]
    return values + [json.dumps(schema["default"])]


def wrong_values(schema):
    values = list(VALUES)
    for part in [schema, *schema.get("anyOf", [])]:
        for limit, step in (("minimum", -1), ("maximum", 1), ("exclusiveMinimum", 0), ("exclusiveMaximum", 0)):
            if limit in part:
                values.append(json.dumps(part[limit] + step))
        values += [v.upper() for v in part.get("enum", []) if isinstance(v, str)][:1]
        values += [v[:-1] for v in part.get("enum", []) if isinstance(v, str)][:1]
    return values


def make_configs(schema):
    """(name, text) of all configs."""
    shipped = {file.name: file.read_text() for file in sorted((SOURCE / "configs").glob("*.yaml"))}
    configs = [*shipped.items(), *((f"text {text!r}", text) for text in TEXTS)]
    bases = {kind: {"data": data, "model": {"kind": kind}} for kind, data in MODELS.items()}
    for section, part in schema["properties"].items():
        for key, of_key in part["properties"].items():
            for kind, base in bases.items():
                configs += [(f"{kind}: {section}.{key}={value}", with_key(base, section, key, value))
                            for value in other_values(of_key)]
            # A wrong value on a kind of model that uses the key.
            used = of_key["description"].rpartition("only with ")[2]
            kind = next((k for k in MODELS if k in used or f"task: {bases[k]['data']['task']}" in used), "seq2seq")
            configs += [(f"{kind}: {section}.{key}={value}", with_key(bases[kind], section, key, value))
                        for value in wrong_values(of_key)]
        configs += [(f"{section}.{name}", with_key(bases["seq2seq"], section, name, "1"))
                    for name in (*[key[:-1] for key in part["properties"]], *[key + "s" for key in part["properties"]])
                    if name not in part["properties"]]
    configs += [(f"{name}, another section model", text + "\nmodel: {}\n") for name, text in shipped.items()]
    return configs


def program_accepts(program, folder, number, text):
    """None, or the message that refuses the config."""
    file = folder / f"{number}.yaml"
    file.write_text(text)
    done = subprocess.run([program, "config", "explain", file.name], cwd=folder, capture_output=True, text=True)
    file.unlink()
    if done.returncode not in (0, 2):
        sys.exit(f"exit code {done.returncode} for\n{text}\n{done.stderr}")
    return None if done.returncode == 0 else done.stderr


def schema_accepts(validator, text):
    try:
        return validator.is_valid(value_of(yaml.compose(text)))
    except yaml.YAMLError:
        return False


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    program = pathlib.Path(sys.argv[1]).resolve()
    schema = json.loads(subprocess.run([program, "config", "schema"], check=True, capture_output=True).stdout)
    missing = set(schema["properties"]["model"]["properties"]["kind"]["enum"]) - MODELS.keys()
    if missing:
        sys.exit(f"MODELS in {pathlib.Path(__file__).name}: found no {', '.join(sorted(missing))}, expected every value of "
                 "model.kind\nhint: add an entry with its data")
    jsonschema.Draft7Validator.check_schema(schema)
    validator = jsonschema.Draft7Validator(schema)
    configs = make_configs(schema)
    with tempfile.TemporaryDirectory() as name, concurrent.futures.ThreadPoolExecutor(4) as pool:
        folder = pathlib.Path(name)
        messages = list(pool.map(lambda i: program_accepts(program, folder, i, configs[i][1]), range(len(configs))))
    counts = collections.Counter()
    lines = collections.defaultdict(list)
    for (name, text), message in zip(configs, messages):
        by_schema = schema_accepts(validator, text)
        counts["refused by the program" if message else "accepted by the program"] += 1
        if by_schema == (message is None):
            continue
        kind = "the program refuses, the schema accepts" if by_schema else "the program accepts, the schema refuses"
        counts[kind] += 1
        first = message.splitlines()[0].partition(": error: ")[2] if message else ""
        lines[kind].append(f"  {name}: {first}")
    for kind, found in lines.items():
        print(kind)
        print("\n".join(found))
    print(f"{len(configs)} configs: " + ", ".join(f"{count} {kind}" for kind, count in counts.items()))
    unknown = [line for line in lines["the program accepts, the schema refuses"]
               if not line.rstrip(": ").endswith(ACCEPTED_BY_PROGRAM)]
    return 1 if unknown else 0


if __name__ == "__main__":
    sys.exit(main())
