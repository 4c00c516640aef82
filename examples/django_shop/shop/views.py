"""Orders over HTTP; each is confirmed by mail if, and only if, it is placed."""

import json
from typing import Any

from django.conf import settings
from django.db import connection, transaction
from django.http import HttpRequest, JsonResponse
from django.views.decorators.http import require_GET, require_POST

from ringonce import InputError
from ringonce.blocking import Ringonce

from .models import Order

IN_STOCK = 10
ringonce = Ringonce(settings.BASE_DIR / "ringonce.toml")


class OutOfStockError(Exception):
    """More was ordered than there is."""


@transaction.atomic
def place(wanted: dict[str, Any]) -> Order:
    """Store the order and ask for its confirmation: both, or neither."""
    order = Order.objects.create(**wanted)
    ringonce.enqueue(
        connection,
        event_id=f"order-{order.pk}-placed",
        type="order.placed",
        subject=f"order:{order.pk}",
        to={"email": order.email},
        content={"title": "Your order", "text": f"We have received it: {order}."},
    )
    if order.quantity > IN_STOCK:
        raise OutOfStockError
    return order


@require_POST
def orders(request: HttpRequest) -> JsonResponse:
    """Place an order."""
    try:
        order = place(json.loads(request.body))
    except OutOfStockError:
        return JsonResponse({"error": f"there are only {IN_STOCK}"}, status=409)
    except InputError as error:
        return JsonResponse({"error": str(error)}, status=400)
    return JsonResponse({"order": order.pk}, status=201)


@require_GET
def mails(_request: HttpRequest, pk: int) -> JsonResponse:
    """What became of the mails about an order."""
    rows = ringonce.search(subject=f"order:{pk}")
    return JsonResponse({"mails": [row.state.status for row in rows]})
