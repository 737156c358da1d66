"""A shop on Django: an order and its webhook are committed together, or neither is."""

import json

from django.db import transaction
from django.forms.models import model_to_dict
from django.http import HttpRequest, JsonResponse
from django.shortcuts import get_object_or_404
from django.urls import path
from django.views.decorators.http import require_POST

from hookline.outbox.django import publish
from shop.models import Order

CUSTOMER = "demo"  # the application in Hookline whose endpoints get the webhooks


def orders(request: HttpRequest) -> JsonResponse:
    if request.method == "POST":
        return pay(json.loads(request.body))
    return JsonResponse([model_to_dict(order) for order in Order.objects.order_by("id")], safe=False)


def pay(ordered: dict) -> JsonResponse:
    with transaction.atomic():  # commits at the end, rolls back on an error
        order = Order.objects.create(item=ordered["item"], cents=ordered["cents"])
        event = publish(CUSTOMER, "order.paid", model_to_dict(order))
    return JsonResponse({"order": order.id, "event": event}, status=201)


@require_POST
def refund(_request: HttpRequest, number: int) -> JsonResponse:
    try:
        with transaction.atomic():
            order = get_object_or_404(Order, id=number)
            order.refunded = True
            order.save()
            publish(CUSTOMER, "order.refunded", model_to_dict(order))
            give_back(order)  # raises: the transaction rolls back, so there is no refund and no webhook
    except ConnectionError as error:
        return JsonResponse({"error": str(error)}, status=503)
    return JsonResponse(model_to_dict(order))


def give_back(order: Order) -> None:
    raise ConnectionError(f"the bank does not answer; order {order.id} is not refunded")


urlpatterns = [path("orders", orders), path("orders/<int:number>/refund", refund)]
