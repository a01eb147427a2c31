"""RingKernelMessage and @message: the fields of gpulens.ring.Message, and serialization with the package
msgpack."""
import dataclasses
from typing import Any, Callable, Optional, Type, TypeVar, overload
from uuid import UUID

from ... import errors
from ...ring.messages import Message, like_dataclass
from ...ring.messages import message as _message
from .exceptions import MessageDeserializationError, MessageSerializationError

__all__ = ["RingKernelMessage", "message"]

T = TypeVar("T")
_UUID = "__uuid_bin__"


def _msgpack() -> Any:
    try:
        import msgpack
    except ImportError:
        raise errors.UnavailableError("serialization needs the package msgpack, which is not installed") from None
    return msgpack


def _encode(value: Any) -> Any:
    if isinstance(value, UUID):
        return {_UUID: value.bytes}
    raise TypeError(f"msgpack cannot represent a {type(value).__name__}")


def _decode(value: dict) -> Any:
    return UUID(bytes=value[_UUID]) if set(value) == {_UUID} else value


def _serialize(self: Any) -> bytes:
    """Returns the message as msgpack bytes. Raises MessageSerializationError for a field that msgpack
    cannot represent."""
    msgpack = _msgpack()
    fields = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
    try:
        return msgpack.packb({**fields, "__type__": type(self).__name__}, default=_encode)
    except Exception as error:
        raise MessageSerializationError(type(self), error) from error


def _deserialize(cls: Type[T], data: bytes) -> T:
    """Returns the message in msgpack bytes; fields that the class does not have are ignored.

    Raises MessageDeserializationError for other bytes.
    """
    msgpack = _msgpack()
    try:
        fields = msgpack.unpackb(data, object_hook=_decode, raw=False)
        known = {field.name for field in dataclasses.fields(cls)}
        return cls(**{name: value for name, value in fields.items() if name in known})
    except Exception as error:
        raise MessageDeserializationError(cls, error) from error


@dataclasses.dataclass
class RingKernelMessage(Message):
    """Base class of messages, with message_id, priority (0 to 255, default 128) and correlation_id."""

    serialize = _serialize
    deserialize = classmethod(_deserialize)


@overload
def message(cls: Type[T]) -> Type[T]: ...


@overload
def message(cls: None = None) -> Callable[[Type[T]], Type[T]]: ...


@like_dataclass()
def message(cls: Optional[Type[T]] = None) -> Any:
    """Makes a class a dataclass with the fields and methods of RingKernelMessage.

        @message
        class Request:
            data: int

        Request(data=1, priority=200).reply(data=2)

    message_id (a UUID), priority (0 to 255, default 128; others raise ValueError) and correlation_id
    follow the class's own fields. Type checkers see only the class's own fields; derive from
    RingKernelMessage to make the others visible to them. serialize() and deserialize() need the package
    msgpack.
    """

    def decorate(kind: Type[T]) -> Type[T]:
        made = _message(kind)
        if not hasattr(made, "serialize"):
            made.serialize = _serialize
            made.deserialize = classmethod(_deserialize)
        return made

    return decorate if cls is None else decorate(cls)
