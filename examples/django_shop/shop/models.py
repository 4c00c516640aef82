"""What the shop keeps."""

from django.db import models


class Order(models.Model):
    """Somebody wants something."""

    email = models.EmailField()
    item = models.CharField(max_length=100)
    quantity = models.PositiveIntegerField()

    def __str__(self) -> str:
        return f"{self.quantity} x {self.item}"
