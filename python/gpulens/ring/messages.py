"""Messages with an ID, a priority and a correlation ID. Optional: kernels accept any object as a message."""
import dataclasses
from typing import TYPE_CHECKING, Any, Callable, Optional, Type, TypeVar, overload
from uuid import UUID, uuid4

__all__ = ["Message", "message"]

if TYPE_CHECKING:  # type checkers know this package without its being installed
    from typing_extensions import dataclass_transform as like_dataclass
else:

    def like_dataclass(**_):
        """Declares to type checkers that a decorator makes dataclasses."""
        return lambda decorator: decorator


T = TypeVar("T")
DEFAULT_PRIORITY = 128


@dataclasses.dataclass
class Message:
    """Message base class with three fields.

    message_id: a random UUID by default.
    priority: 0 to 255; higher ones are processed first, equal ones in order of arrival. Other values raise
        ValueError.
    correlation_id: the message_id of the message that this one answers.
    """

    message_id: UUID = dataclasses.field(default_factory=uuid4)
    priority: int = DEFAULT_PRIORITY
    correlation_id: Optional[UUID] = None

    def __post_init__(self):
        if not 0 <= self.priority <= 255:
            raise ValueError(f"priority must be 0 to 255; got {self.priority}")

    def reply(self, **fields: Any) -> Any:
        """Returns a message that answers this one: of the same class, or of `response_class`."""
        kind = fields.pop("response_class", type(self))
        return kind(correlation_id=self.message_id, **fields)

    def with_correlation(self, correlation_id: UUID) -> Any:
        """Returns a copy that answers another message."""
        return dataclasses.replace(self, correlation_id=correlation_id)


@overload
def message(cls: Type[T]) -> Type[T]: ...


@overload
def message(cls: None = None) -> Callable[[Type[T]], Type[T]]: ...


@like_dataclass()
def message(cls: Optional[Type[T]] = None) -> Any:
    """Makes a class a dataclass with the three fields of Message after its own, all of them keyword
    arguments."""

    def decorate(kind: Type[T]) -> Type[T]:
        own = kind if "__dataclass_fields__" in vars(kind) else dataclasses.dataclass(kind)
        if issubclass(own, Message):
            return own
        known = {field.name for field in dataclasses.fields(own)}
        more = [
            (field.name, field.type, dataclasses.field(default=field.default, default_factory=field.default_factory))
            for field in dataclasses.fields(Message)
            if field.name not in known
        ]
        made = dataclasses.make_dataclass(kind.__name__, more, bases=(own,), namespace=_methods(own))
        made.__module__, made.__qualname__, made.__doc__ = kind.__module__, kind.__qualname__, kind.__doc__
        return made

    return decorate if cls is None else decorate(cls)


def _methods(own):
    """Returns the methods of Message for a class that does not derive from it: the base class would put
    its fields first."""
    theirs = getattr(own, "__post_init__", None)

    def check(self):
        if theirs is not None:
            theirs(self)
        Message.__post_init__(self)

    return {"__post_init__": check, "reply": Message.reply, "with_correlation": Message.with_correlation}
