"""The HTTPS door: which route leads to which function, and what is checked on the way."""

import json
from collections.abc import Mapping

import jsii
from aws_cdk import Duration, RemovalPolicy
from aws_cdk import aws_apigateway as apigateway
from aws_cdk import aws_apigatewayv2 as http
from aws_cdk import aws_apigatewayv2_authorizers as authorizers
from aws_cdk import aws_apigatewayv2_integrations as integrations
from aws_cdk import aws_logs as logs
from constructs import Construct

from infra.functions import LOG_RETENTION, PodferryFunction
from infra.review import acknowledge

# API Gateway prefers the more specific path, so the market's routes win over {proxy+}.
ROUTES = {
    "market": (("GET", "/v1/offers"), ("GET", "/v1/providers")),
    "provider_keys": (
        ("GET", "/v1/provider-keys"),
        *((verb, "/v1/provider-keys/{provider}") for verb in ("GET", "PUT", "DELETE")),
        ("GET", "/v1/provider-keys/{provider}/trust"),
    ),
    "library": (
        *(("POST", f"/v1/pods/{{pod_id}}/{what}") for what in ("keep", "share")),
        *(
            ("GET", f"/v1/snapshots/{{snapshot_id}}/{what}")
            for what in ("entries", "content", "changes", "package-changes")
        ),
    ),
    "secrets": (
        *((verb, "/v1/secrets") for verb in ("GET", "POST")),
        *((verb, "/v1/secrets/{name}") for verb in ("GET", "PUT", "DELETE")),
    ),
    "agent_api": (("POST", "/agent/v1/{proxy+}"),),
    "api": tuple((verb, "/v1/{proxy+}") for verb in ("GET", "POST", "PATCH", "PUT", "DELETE")),
}
OPEN_ROUTES = {"docs": (("GET", "/"), ("GET", "/docs"), ("GET", "/openapi.json"))}

# Room for some hundred agents at one beat a second; a runaway client cannot run up the bill.
REQUESTS_PER_SECOND = 500
BURST = 1000


class PodferryHttpApi(Construct):
    """An HTTP API whose authorizer names the caller; the functions answer refusals themselves."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        api: http.HttpApi,
        functions: Mapping[str, PodferryFunction],
    ) -> None:
        super().__init__(scope, construct_id)
        self._api = api
        self._functions = functions
        self._make_stage()
        authorizer = self._make_authorizer()
        for name, routes in ROUTES.items():
            self._add_routes(name, routes, authorizer)
        for name, routes in OPEN_ROUTES.items():
            for route in self._add_routes(name, routes, http.HttpNoneAuthorizer()):
                acknowledge(
                    route,
                    "AwsSolutions-APIG4",
                    "The description of the API is public; it holds no data of anyone.",
                )

    def _make_authorizer(self) -> authorizers.HttpLambdaAuthorizer:
        """Without identity sources and cache it sees every request, also those without a token."""
        return authorizers.HttpLambdaAuthorizer(
            "Authorizer",
            self._functions["authorizer"].function,
            response_types=[authorizers.HttpLambdaResponseType.SIMPLE],
            identity_source=[],
            results_cache_ttl=Duration.seconds(0),
        )

    def _add_routes(
        self,
        name: str,
        routes: tuple[tuple[str, str], ...],
        authorizer: http.IHttpRouteAuthorizer,
    ) -> list[http.HttpRoute]:
        integration = integrations.HttpLambdaIntegration(
            f"{self._functions[name].spec.title}Integration", self._functions[name].function
        )
        return [
            route
            for verb, path in routes
            for route in self._api.add_routes(
                path=path,
                methods=[http.HttpMethod(verb)],
                integration=integration,
                authorizer=authorizer,
            )
        ]

    def _make_stage(self) -> None:
        access_logs = logs.LogGroup(
            self,
            "AccessLogs",
            retention=LOG_RETENTION,
            removal_policy=RemovalPolicy.DESTROY,
        )
        http.HttpStage(
            self,
            "Stage",
            http_api=self._api,
            stage_name="$default",
            auto_deploy=True,
            throttle=http.ThrottleSettings(rate_limit=REQUESTS_PER_SECOND, burst_limit=BURST),
            access_log_settings=_AccessLogs(access_logs),
        )


@jsii.implements(http.IAccessLogSettings)
class _AccessLogs:
    """One JSON line per request; no header, no query string, so no token."""

    def __init__(self, log_group: logs.LogGroup) -> None:
        self._destination = http.LogGroupLogDestination(log_group)
        self._format = apigateway.AccessLogFormat.custom(
            json.dumps(
                {
                    "request_id": "$context.requestId",
                    "time": "$context.requestTime",
                    "route": "$context.routeKey",
                    "path": "$context.path",
                    "status": "$context.status",
                    "response_bytes": "$context.responseLength",
                    "response_milliseconds": "$context.responseLatency",
                    "authorizer_error": "$context.authorizer.error",
                    "integration_error": "$context.integrationErrorMessage",
                }
            )
        )

    @property
    def destination(self) -> http.IAccessLogDestination:
        return self._destination

    @property
    def format(self) -> apigateway.AccessLogFormat:
        return self._format
