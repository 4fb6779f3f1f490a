"""The reference of the package for Python as Markdown, from signatures and docstrings; nothing is imported."""

import ast
import os
import re

PACKAGE, RECORDER = "python/lockstep", "recorder/python/lockstep_recorder"


def module_of(root, path):
    """A module's tree."""
    with open(os.path.join(root, path), encoding="utf-8") as file:
        return ast.parse(file.read())


def public_names(module):
    """Its __all__."""
    for statement in module.body:
        if isinstance(statement, ast.Assign) and getattr(statement.targets[0], "id", "") == "__all__":
            return ast.literal_eval(statement.value)
    raise ValueError("there is no __all__")


def origins(module, folder):
    """Name -> the file that it is imported from."""
    found = {}
    for statement in ast.walk(module):
        if isinstance(statement, ast.ImportFrom) and statement.module:
            if statement.level:
                home = os.path.join(folder, statement.module + ".py")
            elif statement.module == "lockstep_recorder":
                home = RECORDER + "/__init__.py"
            else:
                continue
            found.update({alias.asname or alias.name: home for alias in statement.names})
    return found


def definition_of(root, path, name):
    """The class, function or assignment that defines it, wherever that is."""
    module = module_of(root, path)
    for statement in module.body:
        if isinstance(statement, (ast.ClassDef, ast.FunctionDef)) and statement.name == name:
            return statement
        if isinstance(statement, ast.Assign) and any(getattr(target, "id", "") == name for target in statement.targets):
            return statement
    return definition_of(root, origins(module, os.path.dirname(path))[name], name)


def definitions(root, folder):
    """Each public name of a package, and its definition. Those of a public module are named with it."""
    for name in public_names(module_of(root, folder + "/__init__.py")):
        path = "%s/%s.py" % (folder, name)
        if not os.path.exists(os.path.join(root, path)):
            yield name, definition_of(root, folder + "/__init__.py", name)
            continue
        for statement in module_of(root, path).body:
            if isinstance(statement, (ast.ClassDef, ast.FunctionDef)) and not statement.name.startswith("_"):
                yield name + "." + statement.name, statement


def signature(definition):
    """The first lines of a definition, as they would be written."""
    if isinstance(definition, ast.FunctionDef):
        returns = " -> " + ast.unparse(definition.returns) if definition.returns else ""
        return "def %s(%s)%s" % (definition.name, ast.unparse(definition.args), returns)
    if isinstance(definition, ast.ClassDef):
        fields = [ast.unparse(each) for each in definition.body if isinstance(each, ast.AnnAssign)]
        bases = ", ".join(ast.unparse(base) for base in definition.bases)
        return "\n    ".join(["class %s%s:" % (definition.name, "(%s)" % bases if bases else "")] + fields)
    return ast.unparse(definition)


def entry(definition, name):
    """Its heading, its signature, its docstring."""
    text = ast.get_docstring(definition) if not isinstance(definition, ast.Assign) else ""
    text = re.sub(r"(?m)^(\w+\(.*)$", r"`\1`", text or "")
    return "\n## %s\n\n```python\n%s\n```\n\n%s\n" % (name, signature(definition), text)


def pages(root):
    """Path below the site -> Markdown."""
    text = "# The package for Python\n\nHow to use it is in [python.md](../docs/python.md).\n"
    for folder in (PACKAGE, RECORDER):
        module = module_of(root, folder + "/__init__.py")
        package = os.path.basename(folder)
        text += "\n# `%s`\n\n```text\n%s\n```\n" % (package, ast.get_docstring(module))
        for name, definition in definitions(root, folder):
            text += entry(definition, "%s.%s" % (package, name))
    return {"api/python.md": text}
