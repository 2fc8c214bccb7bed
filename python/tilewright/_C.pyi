# The extension of lib/Torch. Its functions are documented where they are bound, in lib/Torch/Bindings.cpp.
from typing import Any

def __getattr__(name: str) -> Any: ...
