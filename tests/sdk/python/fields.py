"""Print what the SDK under test can send: the fields of its models and the parameters of its options, by class."""

from __future__ import annotations

import importlib
import inspect
import json
import pkgutil
import re

import svix.api
import svix.models

_PARAMETERS = re.compile(r"serialize_params\(\s*\{(.*?)\}", re.DOTALL)


def bodies() -> dict[str, list[str]]:
    models = inspect.getmembers(svix.models, inspect.isclass)
    return {
        name: [field.alias or own for own, field in model.model_fields.items()]
        for name, model in models
        if hasattr(model, "model_fields")
    }


def parameters() -> dict[str, list[str]]:
    found = {}
    for each in pkgutil.iter_modules(svix.api.__path__):
        module = importlib.import_module(f"svix.api.{each.name}")
        for name, options in inspect.getmembers(module, inspect.isclass):
            if name.endswith("Options") and options.__module__ == module.__name__:
                listed = _PARAMETERS.search(inspect.getsource(options))
                found[name.removesuffix("Options")] = re.findall(r'"(\w+)"\s*:', listed[1] if listed else "")
    return found


print(json.dumps({"bodies": bodies(), "parameters": parameters()}))
