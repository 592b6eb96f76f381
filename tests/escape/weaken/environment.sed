# group: limits
# opens: environment-of-the-host
# file: plan/plan_environment.c
s/"USER=box",/"USER=box", "BOX_ESCAPE_SECRET=1",/
