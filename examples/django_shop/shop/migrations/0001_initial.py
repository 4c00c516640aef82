"""The first table."""

from django.db import migrations, models


class Migration(migrations.Migration):
    """Orders."""

    initial = True
    dependencies = ()
    operations = (
        migrations.CreateModel(
            name="Order",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("email", models.EmailField(max_length=254)),
                ("item", models.CharField(max_length=100)),
                ("quantity", models.PositiveIntegerField()),
            ],
        ),
    )
